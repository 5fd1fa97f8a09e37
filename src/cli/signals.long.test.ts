/** Signals of a running service, and the exit codes of a start that fails. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { runCommand, startService } from '../../test/kit/start-service.ts';
import { testCertificate } from '../../test/kit/test-certificate.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-signals-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Inodes of the TCP sockets that a process listens on. */
function listening(pid: number): number {
  const own = execFileSync('ls', ['-l', `/proc/${pid}/fd`], { encoding: 'utf8' });
  const sockets = new Set([...own.matchAll(/socket:\[(\d+)\]/g)].map(([, inode]) => inode));
  const tables = ['tcp', 'tcp6'].map((name) => readFileSync(`/proc/${pid}/net/${name}`, 'utf8')).join('\n');
  return tables
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === '0A' && sockets.has(fields[9])).length;
}

test('SIGHUP reloads certificates and the provider file without interrupting the service', async (t) => {
  const folder = folderOf(t);
  const providers = path.join(folder, 'providers.json');
  const certFile = path.join(folder, 'cert.pem');
  const keyFile = path.join(folder, 'key.pem');
  const write = (names: string[]): void => {
    const { cert, key } = testCertificate(names);
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key);
  };
  write(['postrider.test']);
  writeFileSync(providers, '{"google": {"connections": 3}}');
  const service = await startService({
    env: {
      POSTRIDER_PROVIDERS: providers,
      POSTRIDER_SMTP_TLS_CERT: certFile,
      POSTRIDER_SMTP_TLS_KEY: keyFile,
    },
  });
  t.after(() => service.close());
  const hangUp = async (line: RegExp): Promise<void> => {
    const before = service.log.length;
    process.kill(service.pid, 'SIGHUP');
    await waitUntil(`${line}`, () => line.test(service.log.slice(before)));
    assert.equal((await fetch(`${service.url}/ready`)).status, 200);
  };
  write(['postrider.test', 'other.test']);
  await hangUp(/reloading certificates and provider file[\s\S]*provider file reloaded/);
  await waitUntil('the certificate', () => /certificate reloaded/.test(service.log));
  writeFileSync(providers, '{"google": {"connections": 0}}');
  await hangUp(/provider file not reloaded; the previous limits stay in use/);
  writeFileSync(providers, '{');
  await hangUp(/POSTRIDER_PROVIDERS=[^\n]*is not JSON/);
  assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null });
});

test('SIGUSR1 does not open a debugger, and user signals do not stop the service', async (t) => {
  const service = await startService();
  t.after(() => service.close());
  const before = listening(service.pid);
  assert.ok(before >= 2, 'HTTP and SMTP');
  for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGPIPE', 'SIGHUP'] as const) {
    process.kill(service.pid, signal);
    await waitUntil('a response', async () => (await fetch(`${service.url}/ready`)).status === 200);
  }
  assert.equal(listening(service.pid), before, 'no port is open');
  assert.doesNotMatch(service.log, /[Dd]ebugger/);
  assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null });
});

test('the exit code distinguishes invalid settings from temporary errors', async (t) => {
  const dataDir = path.join(folderOf(t), 'data');
  const codeOf = async (env: Record<string, string>): Promise<number> =>
    (await runCommand(['serve'], { dataDir, env })).code;
  assert.equal(await codeOf({ POSTRIDER_HTTP_PORT: '70000' }), 78);
  assert.equal(await codeOf({ POSTRIDER_TRUSTED_PROXIES: '10.0.0.0/33' }), 78);
  assert.equal(await codeOf({ POSTRIDER_PROVIDERS: '/nonexistent' }), 78);
  assert.equal(await codeOf({ POSTRIDER_SMTP_TLS_CERT: '/nonexistent' }), 78);
  assert.equal(await codeOf({ POSTRIDER_HTTP_HOST: '192.0.2.1' }), 78, 'not an address of this machine');
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.after(() => other.close());
  const { port } = other.address() as { port: number };
  assert.equal(await codeOf({ POSTRIDER_HTTP_PORT: String(port) }), 1, 'the other process can exit');
  assert.equal((await runCommand(['serve', '--wrong'], { dataDir })).code, 2);
});

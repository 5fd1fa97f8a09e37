/** A data directory has one serving process; a second one exits with one line, and the first is not affected. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { runInProcess } from '../kit/in-process-command.ts';
import { environment, runCommand, startService } from '../kit/start-service.ts';
import { testCertificate } from '../kit/test-certificate.ts';

test('a second serve on the same directory refuses to start', async (t) => {
  const service = await startService();
  t.after(() => service.close());
  const second = await runCommand(['serve'], { dataDir: service.dataDir });
  assert.notEqual(second.code, 0);
  const lines = `${second.stderr}${second.stdout}`.trim().split('\n');
  assert.equal(lines.length, 1, `one line: ${lines.join('\n')}`);
  assert.match(lines[0]!, /already serving/);
  assert.equal((await service.anonymous.get('/health')).status, 200);
  const accounts = await service.cli('account', 'list');
  assert.equal(accounts.accounts.length, 1, 'the command line works while it is running');
  await service.kill('SIGKILL');
  await service.restart();
  assert.equal((await service.anonymous.get('/ready')).status, 200, 'control: a killed process holds no lock');
});

test('a wrong setting stops the start with one line naming it', async (t) => {
  const service = await startService();
  t.after(() => service.close());
  const env = { POSTRIDER_MX_PORT: 'smtp' };
  const done = await runCommand(['serve'], { dataDir: service.dataDir, env });
  assert.notEqual(done.code, 0);
  const lines = `${done.stderr}${done.stdout}`.trim().split('\n');
  assert.equal(lines.length, 1, lines.join('\n'));
  assert.match(lines[0]!, /POSTRIDER_MX_PORT="smtp".*1 to 65535/);
});

test('a failed first start creates nothing and prints no credentials', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-first-start-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.after(() => taken.close());
  const takenPort = String((taken.address() as AddressInfo).port);
  const file = (name: string, text: string): string => {
    writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };
  const { cert, key } = testCertificate(['one.test']);
  const certFile = file('cert.pem', cert);
  const otherKey = file('other.pem', testCertificate(['other.test']).key);
  const pair = (CERT: string, KEY: string) => ({ POSTRIDER_SMTP_TLS_CERT: CERT, POSTRIDER_SMTP_TLS_KEY: KEY });
  const wrong: [env: Record<string, string>, line: RegExp][] = [
    [pair('/none', '/none'), /POSTRIDER_SMTP_TLS_CERT="\/none" is not valid .*allowed: a readable PEM file/],
    [pair(certFile, '/none'), /POSTRIDER_SMTP_TLS_KEY="\/none" is not valid/],
    [pair(certFile, file('empty.pem', '')), /POSTRIDER_SMTP_TLS_KEY=".*empty\.pem" is not valid/],
    [pair(certFile, otherKey), /POSTRIDER_SMTP_TLS_KEY=".*other\.pem" is not the key of the certificate/],
    [
      { POSTRIDER_PROVIDERS: '/none' },
      /POSTRIDER_PROVIDERS="\/none" is not valid \(cannot be read \(ENOENT\)\); allowed:/,
    ],
    [
      { POSTRIDER_PROVIDERS: file('providers.json', '{"gogle": {"connections": 3}}') },
      /POSTRIDER_PROVIDERS=".*" is not valid \(unknown provider "gogle" \(known: .*; allowed: a JSON file/,
    ],
    [{ POSTRIDER_HTTP_PORT: takenPort }, new RegExp(`POSTRIDER_HTTP_PORT="${takenPort}" is in use`)],
    [{ POSTRIDER_SMTP_PORT: takenPort }, new RegExp(`POSTRIDER_SMTP_PORT="${takenPort}" is in use`)],
    [{ POSTRIDER_SMTP_HOST: '203.0.113.7' }, /POSTRIDER_SMTP_HOST="203\.0\.113\.7" is not an address of this machine/],
    [{ POSTRIDER_HTTP_HOST: '203.0.113.7' }, /POSTRIDER_HTTP_HOST="203\.0\.113\.7" is not an address of this machine/],
    [
      { POSTRIDER_SOURCE_ADDRESSES: '127.0.0.1, 203.0.113.7' },
      /POSTRIDER_SOURCE_ADDRESSES="127\.0\.0\.1,203\.0\.113\.7": 203\.0\.113\.7 is not an address of this machine \(EADDRNOTAVAIL\)/,
    ],
  ];
  const dataDir = path.join(folder, 'data');
  for (const [env, line] of wrong) {
    const done = await runInProcess(['serve'], environment(dataDir, env));
    // A port may become free, so a service manager may retry that; it must not retry a wrong setting.
    const isTransient = Object.values(env).includes(takenPort);
    assert.deepEqual([done.code, done.stdout], [isTransient ? 1 : 78, ''], done.stderr);
    assert.match(done.stderr, line);
    assert.equal(done.stderr.trim().split('\n').length, 1, done.stderr);
    assert.ok(!existsSync(dataDir), `nothing was created: ${done.stderr}`);
  }
  const words = { POSTRIDER_INBOUND_PORT: 'off', POSTRIDER_BOUNCE_DOMAIN: 'none', POSTRIDER_MX_ALLOW: 'none' };
  const service = await startService({ dataDir, env: { ...pair(certFile, file('key.pem', key)), ...words } });
  t.after(() => service.close());
  assert.doesNotMatch(service.log, /is ignored because/, 'default values cause no warning');
  assert.equal((await service.anonymous.get('/ready')).status, 200, 'control: it starts with valid settings');
});

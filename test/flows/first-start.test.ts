/** The first start prints its credentials only on a terminal, and never to output that is stored. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { missing } from '../kit/requirements.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAIN = path.resolve(import.meta.dirname, '../../bin/postrider.js');

interface FirstStart {
  said: string;
  file: string;
  first: Record<string, string>;
}

async function firstStart(
  t: TestContext,
  command: (line: string[]) => string[],
  ...more: string[]
): Promise<FirstStart> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-first-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [program = '', ...args] = command([process.execPath, MAIN, 'serve', ...more]);
  const env = {
    ...process.env,
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: '0',
    POSTRIDER_MIN_FREE_BYTES: '1000000',
  };
  const child: ChildProcess = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (said += chunk));
  await waitUntil('the greeting', () => said.includes('first-run.json'));
  const announced = path.join(folder, 'serving.json');
  assert.ok(existsSync(announced), said);
  const { pid, httpPort } = JSON.parse(readFileSync(announced, 'utf8'));
  process.kill(pid, 'SIGTERM');
  await ended;
  const file = path.join(folder, 'first-run.json');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const first = JSON.parse(readFileSync(file, 'utf8'));
  assert.equal(new URL(first.signInUrl).host, `localhost:${httpPort}`);
  return { said, file, first };
}

const SECRETS = ['apiKey', 'sandboxApiKey', 'smtpPassword', 'sandboxSmtpPassword', 'signInUrl'] as const;

test('prints the credentials on a terminal', { skip: missing('script') }, async (t) => {
  const { said, file, first } = await firstStart(t, (line) => ['script', '-qec', line.join(' '), '/dev/null']);
  for (const name of SECRETS) assert.ok(said.includes(first[name]!), `${name} in ${said}`);
  assert.ok(said.includes(file));
});

for (const more of [[], ['--json']]) {
  test(`prints only the path to a pipe: serve ${more.join()}`, async (t) => {
    const { said, file, first } = await firstStart(t, (line) => line, ...more);
    for (const name of SECRETS) assert.ok(first[name] && !said.includes(first[name]), `${name} in ${said}`);
    assert.ok(said.includes(file));
  });
}

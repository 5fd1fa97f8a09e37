/** The code that the portal gives, run as it stands there: the first mail by swaks and by Nodemailer, and a test that waits for a mail. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { testsOf } from '../../portal/src/pages/inbox/as-test.ts';
import { smtpSnippets } from '../../portal/src/pages/start/smtp-snippets.ts';
import { missing } from '../kit/peers.ts';
import { type Service, startService } from '../kit/start-service.ts';

const run = promisify(execFile);
const ROOT = path.resolve(import.meta.dirname, '../..');
let service: Service;
let folder: string;

before(async () => {
  service = await startService();
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-snippets-'));
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
});
after(async () => {
  await service?.close();
  rmSync(folder, { recursive: true, force: true });
});

const mailTo = (to: string) => ({
  ...{ from: "Ann's shop <ann@shop.example>", to, subject: "It's here", text: "The shop's first mail" },
});

async function snippets(to: string): Promise<Record<string, string>> {
  const made = await service.sandboxApi.post('/smtp-credentials');
  assert.equal(made.status, 201, made.text);
  return smtpSnippets({ host: '127.0.0.1', port: service.smtpPort }, mailTo(to), {
    username: made.body.username,
    password: made.body.password,
  });
}

async function assertArrived(to: string): Promise<void> {
  const { status, body } = await service.sandboxApi.get(`/sandbox/inbox/wait?to=${to}&timeoutSeconds=20`);
  assert.equal(status, 200);
  const { body: mail } = await service.sandboxApi.get(`/sandbox/inbox/${body.messageId}`);
  assert.deepEqual(
    [mail.from, mail.subject, mail.text.trim()],
    Object.values({ ...mailTo(to), to: undefined }).filter(Boolean),
  );
}

test('swaks sends the first mail', { skip: missing('swaks') }, async () => {
  await run('sh', ['-c', (await snippets('swaks@example.com')).swaks!]);
  await assertArrived('swaks@example.com');
});

test('Nodemailer sends the first mail', async () => {
  const file = path.join(folder, 'first.mjs');
  writeFileSync(file, (await snippets('nodemailer@example.com')).Nodemailer!);
  await run(process.execPath, [file]);
  await assertArrived('nodemailer@example.com');
});

test('a test waits for a mail, and fails where another one comes', { skip: missing('python3') }, async () => {
  const to = 'code@example.com';
  const send = (subject: string) =>
    service.sandboxApi.post('/send', {
      ...{ from: 'ann@shop.example', to, subject, text: 'Your code is 482913. https://shop.example/verify?t=1' },
    });
  const code = testsOf({
    ...{ url: service.url, accountId: service.sandbox.accountId, to, subject: "It's your code" },
    ...{ hasCode: true, hasLink: true },
  });
  const [script, python] = [path.join(folder, 'wait.test.mjs'), path.join(folder, 'test_wait.py')];
  writeFileSync(script, code['node:test']!);
  writeFileSync(python, code.pytest!);
  const env: NodeJS.ProcessEnv = { ...process.env, POSTRIDER_KEY: service.sandbox.apiKey };
  delete env.NODE_TEST_CONTEXT;
  const options = { cwd: folder, env };
  const waits = [
    () => run(process.execPath, ['--test', script], options),
    () => run('python3', ['-c', 'import test_wait; test_wait.test_mail_arrives()'], options),
  ];
  assert.equal((await send('Another one')).status, 202);
  for (const wait of waits)
    await assert.rejects(wait(), (error: { stdout: string; stderr: string }) =>
      /your code/.test(error.stdout + error.stderr),
    );
  await service.sandboxApi.delete('/sandbox/inbox');
  assert.equal((await send("It's your code")).status, 202);
  for (const wait of waits) await wait();
});

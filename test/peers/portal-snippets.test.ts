/** The snippets for a first email in the portal run as printed: swaks and Nodemailer. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { smtpSnippets } from '../../portal/src/pages/start/smtp-snippets.ts';
import { missing } from '../kit/requirements.ts';
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
  from: "Ann's shop <ann@shop.example>",
  to,
  subject: "It's here",
  text: "The shop's first mail",
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

test('swaks sends the first message', { skip: missing('swaks') }, async () => {
  await run('sh', ['-c', (await snippets('swaks@example.com')).swaks!]);
  await assertArrived('swaks@example.com');
});

test('Nodemailer sends the first message', async () => {
  const file = path.join(folder, 'first.mjs');
  writeFileSync(file, (await snippets('nodemailer@example.com')).Nodemailer!);
  await run(process.execPath, [file]);
  await assertArrived('nodemailer@example.com');
});

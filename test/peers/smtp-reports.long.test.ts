/**
 * Delivery reports as real clients request them: Postfix (sendmail -N, with us as its relayhost), nodemailer, msmtp and Python's smtplib.
 * Each submits one message that bounces and one that is delivered; the reports are counted where they arrive.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import nodemailer from 'nodemailer';
import type { JsonObject } from '../kit/api.ts';
import { missing } from '../kit/requirements.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { startPostfix } from './private-postfix.ts';

const SENDER = 'shop@shop.example';
const run = promisify(execFile);
let sink: SmtpSink;
let service: Service;
let folder: string;

before(async () => {
  sink = await smtpSink({
    script: { rcpt: ({ line }) => (line.includes('gone') ? '550 5.1.1 no such user' : undefined) },
  });
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-reports-'));
});

after(async () => {
  await service?.close();
  await sink?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Action, recipient and envelope identifier of each report about mail with this mark, sorted; waits for so many. */
async function reports(mark: string, count: number): Promise<string[]> {
  const found = () => sink.messages.filter((one) => one.from === '' && one.content.includes(mark));
  await waitUntil(`${count} reports about ${mark}`, () => found().length >= count || undefined, 30_000);
  return found()
    .map((one) => {
      assert.deepEqual(one.to, [SENDER]);
      const text = one.content.toString('latin1');
      const field = (name: string): string => new RegExp(`^${name}: (.*)\r$`, 'm').exec(text)?.[1] ?? '-';
      return [field('Action'), field('Original-Recipient'), field('Original-Envelope-Id')].join(' ');
    })
    .sort();
}

/** Runs a program with this on its standard input; rejects with its output when it fails. */
function pipeInto(program: string, args: string[], input: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => {
        output += text;
      });
    }
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ended with ${code}: ${output}`)),
    );
    child.stdin.end(input);
  });
}

test('nodemailer, option dsn', async () => {
  const { username: user, password: pass } = service.smtpCredential;
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: service.smtpPort,
    requireTLS: true,
    auth: { user, pass },
    tls: { rejectUnauthorized: false },
    name: 'nodemailer.example',
  });
  const mail = { from: SENDER, text: 'x', subject: 'nodemailer-reports' };
  const dsn = { id: 'order 17+x', return: 'headers' as const, notify: ['success' as const, 'failure' as const] };
  await transport.sendMail({
    ...mail,
    to: 'never-gone-nodemailer@example.com',
    dsn: { ...dsn, notify: ['never' as const] },
  });
  for (const to of ['gone-nodemailer@example.com', 'ann@example.com']) {
    await transport.sendMail({ ...mail, to, dsn: { ...dsn, recipient: SENDER } });
  }
  transport.close();
  assert.deepEqual(await reports('nodemailer-reports', 2), [
    `failed rfc822; ${SENDER} order 17+x`,
    `relayed rfc822; ${SENDER} order 17+x`,
  ]);
});

test('msmtp --dsn-notify', { skip: missing('msmtp') }, async () => {
  const { username, password } = service.smtpCredential;
  const config = path.join(folder, 'msmtprc');
  writeFileSync(
    config,
    [
      'account default',
      'host 127.0.0.1',
      `port ${service.smtpPort}`,
      'auth on',
      'tls on',
      'tls_starttls on',
      'tls_certcheck off',
      `from ${SENDER}`,
      `user ${username}`,
      `password ${password}`,
      '',
    ].join('\n'),
    { mode: 0o600 },
  );
  const mail = `From: ${SENDER}\nSubject: msmtp-reports\n\nx\n`;
  const options = ['-C', config, '--dsn-return=full'];
  await pipeInto('msmtp', [...options, '--dsn-notify=never', 'never-gone-msmtp@example.com'], mail);
  await pipeInto(
    'msmtp',
    [...options, '--dsn-notify=failure,success', 'gone-msmtp@example.com', 'ann@example.com'],
    mail,
  );
  assert.deepEqual(await reports('msmtp-reports', 2), ['failed - -', 'relayed - -']);
});

test("Python's smtplib: mail_options and rcpt_options", { skip: missing('python3') }, async () => {
  const { username, password } = service.smtpCredential;
  const script = `
import smtplib, ssl, sys
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
mail = b'From: ${SENDER}\\r\\nSubject: smtplib-reports\\r\\n\\r\\nx\\r\\n'
with smtplib.SMTP('127.0.0.1', ${service.smtpPort}) as server:
    server.starttls(context=context)
    server.login(sys.argv[1], sys.argv[2])
    print(server.has_extn('dsn'))
    server.sendmail('${SENDER}', ['never-gone-smtplib@example.com'], mail, rcpt_options=['NOTIFY=NEVER'])
    server.sendmail('${SENDER}', ['gone-smtplib@example.com', 'ann@example.com'], mail,
        mail_options=['RET=HDRS', 'ENVID=python+2B1'], rcpt_options=['NOTIFY=SUCCESS,FAILURE,DELAY'])
    try:
        server.sendmail('${SENDER}', ['ann@example.com'], mail, mail_options=['RET=ALL'])
    except smtplib.SMTPSenderRefused as refused:
        print(refused.smtp_code, refused.smtp_error.decode())
`;
  const { stdout } = await run('python3', ['-c', script, username, password]);
  assert.match(stdout, /^True\n501 5\.5\.4 RET must be FULL or HDRS\n/);
  assert.deepEqual(await reports('smtplib-reports', 2), ['failed - python+1', 'relayed - python+1']);
});

test('Postfix: sendmail -N, with the service as its relayhost', {
  skip: missing('postfix') || (process.getuid?.() === 0 ? false : 'a private Postfix needs root'),
}, async (t) => {
  const { username, password } = service.smtpCredential;
  const postfix = await startPostfix({
    domain: 'local.example',
    users: [],
    settings: {
      relayhost: `[127.0.0.1]:${service.smtpPort}`,
      smtp_tls_security_level: 'encrypt',
      smtp_sasl_auth_enable: 'yes',
      smtp_sasl_password_maps: `inline:{ { [127.0.0.1]:${service.smtpPort} = ${username}:${password} } }`,
      smtp_sasl_security_options: 'noanonymous',
      default_transport: 'smtp',
    },
  });
  t.after(() => postfix.stop());
  const mail = `From: ${SENDER}\nSubject: postfix-reports\n\nx\n`;
  const submit = (notify: string, ...to: string[]): Promise<void> =>
    pipeInto(
      '/usr/sbin/sendmail',
      ['-C', postfix.configFolder, '-N', notify, '-V', 'post+17', '-R', 'hdrs', '-f', SENDER, ...to],
      mail,
    );
  await submit('never', 'never-gone-postfix@example.com');
  await submit('failure,delay,success', 'gone-postfix@example.com', 'ann@example.com');
  const found = await reports('postfix-reports', 2).catch((error: Error) => {
    throw new Error(`${error.message}\n${postfix.log().slice(-4_000)}`);
  });
  assert.deepEqual(found.length, 2);
  assert.deepEqual(found, [
    'failed rfc822; gone-postfix@example.com post+17',
    'relayed rfc822; ann@example.com post+17',
  ]);
  // It leaves the reports to Postrider: it neither bounces the message itself nor reports that it relayed it.
  assert.doesNotMatch(postfix.log(), /sender (?:non-)?delivery (?:status )?notification/);
  const events = (await service.api.get('/events?eventType=Bounce&limit=100')).body as unknown as JsonObject[];
  assert.ok(events.some((one) => one.envid === 'post+17'));
});

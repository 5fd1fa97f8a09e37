/**
 * Common clients for submission, unmodified: swaks, msmtp, curl, Python's smtplib, nodemailer, and Postfix with a smarthost. Each logs in
 * over STARTTLS, some also over implicit TLS, and its messages arrive as sent.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import nodemailer from 'nodemailer';
import { missing } from '../kit/requirements.ts';
import { type SinkMessage, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { startPostfix } from './private-postfix.ts';

const SENDER = 'shop@shop.example';
const run = promisify(execFile);
let sink: SmtpSink;
let service: Service;
let folder: string;

before(async () => {
  sink = await smtpSink();
  service = await startService({
    env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_SMTPS_PORT: '0' },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-clients-'));
});

after(async () => {
  await service?.close();
  await sink?.close();
  rmSync(folder, { recursive: true, force: true });
});

function arrived(mark: string): Promise<SinkMessage> {
  return waitUntil(`the mail with ${mark}`, () => sink.messages.find((one) => one.content.includes(mark)));
}

const headerOf = (message: SinkMessage): string => {
  const text = message.content.toString('latin1');
  return text.slice(0, text.indexOf('\r\n\r\n') + 2);
};

function fileWith(name: string, content: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, content, { mode: 0o600 });
  return file;
}

/** Runs a program with this standard input; rejects with its output if it fails. */
function pipeInto(program: string, args: string[], input: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => {
        said += text;
      });
    }
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ended with ${code}: ${said}`)),
    );
    child.stdin.end(input);
  });
}

for (const mechanism of ['PLAIN', 'LOGIN']) {
  test(`swaks, AUTH ${mechanism}, with an attachment`, { skip: missing('swaks') }, async () => {
    const { username, password } = service.smtpCredential;
    const mark = `swaks-${mechanism}-mark`;
    const attachment = fileWith('report.csv', 'a;b\n1;2\n');
    const { stdout } = await run('swaks', [
      '--server',
      '127.0.0.1',
      '--port',
      String(service.smtpPort),
      '--tls',
      '--helo',
      'swaks.example',
      '--auth',
      mechanism,
      '--auth-user',
      username,
      '--auth-password',
      password,
      '--from',
      SENDER,
      '--to',
      'ann@example.com,bob@example.com',
      '--header',
      `Subject: ${mark}`,
      '--body',
      '.leading dot\n..two dots\nend',
      '--attach-type',
      'text/csv',
      '--attach',
      `@${attachment}`,
    ]);
    assert.match(stdout, /<~ {2}250 2\.0\.0 queued as msg_/);
    const message = await arrived(mark);
    assert.deepEqual([...message.to].sort(), ['ann@example.com', 'bob@example.com']);
    assert.match(message.content.toString('latin1'), /\r\n\.leading dot\r\n\.\.two dots\r\nend\r\n/);
    assert.ok(message.content.includes('report.csv'));
    assert.match(headerOf(message), /^Received: from swaks\.example \(\[127\.0\.0\.1\]\)\r\n/);
  });
}

test('swaks --tlsc: TLS from the first byte', { skip: missing('swaks') }, async () => {
  const { username, password } = service.smtpCredential;
  const { stdout } = await run('swaks', [
    '--server',
    '127.0.0.1',
    '--port',
    String(service.smtpsPort),
    '--tlsc',
    '--helo',
    'swaks.example',
    '--auth',
    'PLAIN',
    '--auth-user',
    username,
    '--auth-password',
    password,
    '--from',
    SENDER,
    '--to',
    'ann@example.com',
    '--header',
    'Subject: swaks-tlsc-mark',
  ]);
  assert.match(stdout, /=== TLS started[\s\S]*<~ {2}220 [\s\S]*<~ {2}250 2\.0\.0 queued as msg_/);
  assert.match(headerOf(await arrived('swaks-tlsc-mark')), /with ESMTPSA/);
});

test('openssl s_client connects to the implicit TLS port', { skip: missing('openssl') }, async () => {
  const { stdout } = await run('sh', [
    '-c',
    `printf 'EHLO client.example\\nQUIT\\n' | openssl s_client -connect 127.0.0.1:${service.smtpsPort} -quiet -crlf -ign_eof 2>/dev/null || true`,
  ]);
  // It sends data before the greeting, which is rejected with a readable reply.
  assert.match(stdout, /^(?:554 5\.5\.0 |220 )/);
});

test('swaks gets a rejection for a wrong password, and no AUTH without TLS', {
  skip: missing('swaks'),
}, async () => {
  const base = [
    '--server',
    '127.0.0.1',
    '--port',
    String(service.smtpPort),
    '--from',
    SENDER,
    '--to',
    'ann@example.com',
  ];
  const wrong = ['--auth', 'PLAIN', '--auth-user', service.smtpCredential.username, '--auth-password', 'wrong'];
  const failure = async (args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
    run('swaks', [...base, ...args]).then(
      () => assert.fail('swaks succeeded'),
      (error: { code: number; stdout: string; stderr: string }) => error,
    );
  assert.match((await failure(['--tls', ...wrong])).stdout, /<~\* 535 5\.7\.8 /);
  const { stdout, stderr } = await failure(wrong);
  assert.match(stdout + stderr, /did not advertise|does not advertise/);
  assert.match((await failure([])).stdout, /<\*\* 530 5\.7\.0 /);
});

test('msmtp, with a trusted certificate', { skip: missing('msmtp', 'openssl') }, async () => {
  const { username, password } = service.smtpCredential;
  const { stdout } = await run('sh', [
    '-c',
    `echo QUIT | openssl s_client -connect 127.0.0.1:${service.smtpPort} -starttls smtp -showcerts 2>/dev/null | openssl x509`,
  ]);
  const config = fileWith(
    'msmtprc',
    [
      'account default',
      'host localhost',
      `port ${service.smtpPort}`,
      'auth on',
      'tls on',
      'tls_starttls on',
      `tls_trust_file ${fileWith('trusted.pem', stdout)}`,
      `from ${SENDER}`,
      `user ${username}`,
      `password ${password}`,
      '',
    ].join('\n'),
  );
  const mail = `From: Shop <${SENDER}>\nTo: ann@example.com\nBcc: blind@example.com\nSubject: msmtp-mark\n\nHello\n.\nafter a dot\n`;
  await pipeInto('msmtp', ['-C', config, '-t'], mail);
  const message = await arrived('msmtp-mark');
  assert.deepEqual([...message.to].sort(), ['ann@example.com', 'blind@example.com']);
  assert.ok(!message.content.includes('blind@'));
  assert.ok(message.content.toString('latin1').endsWith('\r\n\r\nHello\r\n.\r\nafter a dot\r\n'));
});

test('curl', { skip: missing('curl') }, async () => {
  const { username, password } = service.smtpCredential;
  const file = fileWith(
    'curl.eml',
    `From: ${SENDER}\r\nTo: ann@example.com\r\nSubject: curl-mark\r\n\r\n.\r\nHello\r\n`,
  );
  const args = (user: string): string[] => [
    '--silent',
    '--show-error',
    '--ssl-reqd',
    '--insecure',
    '--url',
    `smtp://127.0.0.1:${service.smtpPort}`,
    '--user',
    user,
    '--mail-from',
    SENDER,
    '--mail-rcpt',
    'ann@example.com',
    '--upload-file',
    file,
  ];
  await run('curl', args(`${username}:${password}`));
  const message = await arrived('curl-mark');
  assert.ok(message.content.toString('latin1').endsWith('\r\n\r\n.\r\nHello\r\n'));
  await assert.rejects(run('curl', args(`${username}:wrong`)), { code: 67 });
});

test("Python's smtplib: a composed message, UTF-8 addresses, several per session", {
  skip: missing('python3'),
}, async () => {
  const { username, password } = service.smtpCredential;
  const script = `
import smtplib, ssl, sys
from email.message import EmailMessage
from email.policy import SMTPUTF8
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
with smtplib.SMTP('127.0.0.1', ${service.smtpPort}, local_hostname='python.example') as server:
    server.starttls(context=context)
    server.login(sys.argv[1], sys.argv[2])
    for number in range(3):
        mail = EmailMessage()
        mail['From'] = 'Größe <${SENDER}>'
        mail['To'] = 'ann@example.com'
        mail['Subject'] = f'python-mark-{number} für alle'
        mail.set_content('Grüße\\n.\\nEnde\\n')
        mail.add_alternative('<p>Grüße</p>', subtype='html')
        mail.add_attachment(bytes(range(256)) * 400, maintype='application', subtype='octet-stream', filename='alle.bin')
        print(server.send_message(mail))
    mail = EmailMessage(policy=SMTPUTF8)
    mail['From'] = '${SENDER}'
    mail['To'] = 'grüße@example.com'
    mail['Subject'] = 'python-mark-utf8'
    mail.set_content('x')
    print(server.send_message(mail))
    try:
        server.sendmail('x@foreign.example', ['ann@example.com'], b'x')
    except smtplib.SMTPSenderRefused as refused:
        print(refused.smtp_code, refused.smtp_error.decode())
`;
  const { stdout } = await run('python3', ['-c', script, username, password]);
  assert.match(stdout, /^\{\}\n\{\}\n\{\}\n\{\}\n550 5\.7\.1 /);
  for (let number = 0; number < 3; number += 1) {
    const message = await arrived(`python-mark-${number}`);
    const text = message.content.toString('latin1');
    const encoded = Buffer.from(Array.from({ length: 102_400 }, (_, index) => index % 256)).toString('base64');
    assert.ok(text.replaceAll('\r\n', '').includes(encoded), 'the attachment is complete');
    assert.match(headerOf(message), /Received: from python\.example /);
  }
  assert.deepEqual((await arrived('python-mark-utf8')).to, ['grüße@example.com']);
});

test('nodemailer, pooled', async () => {
  const { username: user, password: pass } = service.smtpCredential;
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: service.smtpPort,
    requireTLS: true,
    pool: true,
    maxConnections: 3,
    auth: { user, pass },
    tls: { rejectUnauthorized: false },
    name: 'nodemailer.example',
  });
  const sent = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      transport.sendMail({
        from: `Shop <${SENDER}>`,
        to: 'ann@example.com',
        bcc: 'blind@example.com',
        subject: `nodemailer-mark-${index}.`,
        text: 'Grüße\n.\n',
        html: '<img src="cid:logo">',
        attachments: [{ filename: 'logo.png', content: Buffer.alloc(500, index), cid: 'logo' }],
      }),
    ),
  );
  transport.close();
  for (const [index, info] of sent.entries()) {
    assert.match(info.response, /^250 2\.0\.0 queued as msg_/);
    const message = await arrived(`nodemailer-mark-${index}.`);
    assert.ok(message.content.includes(info.messageId));
    assert.ok(!message.content.includes('blind@'));
  }
});

test('nodemailer with secure: true', async () => {
  const { username: user, password: pass } = service.smtpCredential;
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: service.smtpsPort,
    secure: true,
    name: 'nodemailer.example',
    auth: { user, pass },
    tls: { rejectUnauthorized: false },
  });
  const info = await transport.sendMail({ from: SENDER, to: 'ann@example.com', subject: 'secure-mark', text: 'x' });
  transport.close();
  assert.match(info.response, /^250 2\.0\.0 queued as msg_/);
  assert.ok((await arrived('secure-mark')).content.includes(info.messageId));
});

test('Postfix relays a message with mixed recipient outcomes through Postrider', {
  skip: missing('postfix'),
}, async (t) => {
  const { username, password } = service.smtpCredential;
  const postfix = await startPostfix({
    domain: 'local.example',
    users: ['ann'],
    settings: {
      relayhost: `[127.0.0.1]:${service.smtpPort}`,
      mynetworks: '127.0.0.0/8',
      smtpd_relay_restrictions: 'permit_mynetworks, reject',
      smtp_tls_security_level: 'encrypt',
      smtp_sasl_auth_enable: 'yes',
      smtp_sasl_password_maps: `inline:{ { [127.0.0.1]:${service.smtpPort} = ${username}:${password} } }`,
      smtp_sasl_security_options: 'noanonymous',
      default_transport: 'smtp',
    },
  });
  t.after(() => postfix.stop());
  const talker = await connectTalker(postfix.port);
  await talker.reply();
  await talker.say('EHLO app.example');
  const submit = async (from: string, mark: string): Promise<void> => {
    assert.match(await talker.say(`MAIL FROM:<${from}>`), /^250 /);
    for (const to of ['ann@example.com', 'bob@example.com']) assert.match(await talker.say(`RCPT TO:<${to}>`), /^250 /);
    assert.match(await talker.say('DATA'), /^354 /);
    assert.match(
      await talker.say(`From: <${from}>\r\nTo: ann@example.com\r\nSubject: ${mark}\r\n\r\n..\r\nHello\r\n.`),
      /^250 /,
    );
  };
  for (let number = 0; number < 5; number += 1) await submit(SENDER, `postfix-mark-${number}.`);
  await submit('shop@foreign.example', 'postfix-foreign-mark');
  talker.destroy();
  for (let number = 0; number < 5; number += 1) {
    const message = await arrived(`postfix-mark-${number}.`).catch((error: Error) => {
      throw new Error(`${error.message}\n${postfix.log()}`);
    });
    assert.deepEqual([...message.to].sort(), ['ann@example.com', 'bob@example.com']);
    // Its Received field is kept below ours.
    assert.match(headerOf(message), /^Received: from mx\.local\.example [\s\S]*\r\nReceived: from app\.example /);
    assert.ok(message.content.toString('latin1').endsWith('\r\n\r\n.\r\nHello\r\n'));
  }
  await waitUntil('the rejection in the log', () => /status=bounced .*550 5\.7\.1/.test(postfix.log()));
  await waitUntil('an acceptance in the log', () => /250 2\.0\.0 queued as msg_/.test(postfix.log()));
  assert.ok(!sink.messages.some((one) => one.content.includes('postfix-foreign-mark')));
});

/** A bounce that the recipient's server reports after it accepted the message: the sender who asked for it receives one delivery report. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink();
  service = await startService({
    env: {
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_BOUNCE_DOMAIN: 'bounces.example',
      POSTRIDER_INBOUND_PORT: '0',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});

after(async () => {
  await service?.close();
  await sink?.close();
});

async function submit(mark: string, parameters: string): Promise<string> {
  const talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn(service.smtpCredential);
  assert.match(await talker.say('MAIL FROM:<shop@shop.example> ENVID=late-1'), /^250 /);
  assert.match(await talker.say(`RCPT TO:<${mark}@example.com>${parameters}`), /^250 /);
  assert.match(await talker.say('DATA'), /^354 /);
  talker.send(`From: shop@shop.example\r\nSubject: ${mark}\r\nMessage-ID: <${mark}@shop.example>\r\n\r\nx\r\n.\r\n`);
  assert.match(await talker.reply(), /^250 2\.0\.0 queued as msg_/);
  talker.destroy();
  const taken = await waitUntil('the mail', () => sink.messages.find((one) => one.content.includes(`: ${mark}\r\n`)));
  return taken.from;
}

async function bounceTo(returnPath: string, mark: string): Promise<void> {
  const talker = await connectTalker(service.inboundPort);
  await talker.reply();
  await talker.say('HELO mx.example.com');
  assert.match(await talker.say('MAIL FROM:<>'), /^250 /);
  assert.match(await talker.say(`RCPT TO:<${returnPath}>`), /^250 /);
  assert.match(await talker.say('DATA'), /^354 /);
  const status = [
    'Reporting-MTA: dns; mx.example.com',
    '',
    `Final-Recipient: rfc822; ${mark}@example.com`,
    'Action: failed',
    'Status: 5.1.1',
    'Remote-MTA: dns; store.example.com',
    'Diagnostic-Code: smtp; 550 5.1.1 no such user',
  ].join('\r\n');
  const parts = [
    'From: MAILER-DAEMON@mx.example.com',
    'Subject: Undelivered Mail',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
    '',
    '--b',
    '',
    'It failed.',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    status,
    '',
    '--b',
    'Content-Type: text/rfc822-headers',
    '',
    `Message-ID: <${mark}@shop.example>`,
    '--b--',
    '',
  ];
  talker.send(`${parts.join('\r\n')}.\r\n`);
  assert.match(await talker.reply(), /^250 /);
  talker.destroy();
}

const reportsOf = (mark: string) =>
  sink.messages.filter(({ from, content }) => from === '' && content.includes(`<${mark}@shop.example>`));

test('a late bounce is forwarded once, however often it arrives, and only if requested', async () => {
  const unasked = await submit('unasked-late', '');
  await bounceTo(unasked, 'unasked-late');
  const returnPath = await submit('asked-late', ' NOTIFY=FAILURE');
  await waitUntil('the delivery to be recorded', async () => {
    const { body } = await service.api.get('/events?eventType=Delivery&recipient=asked-late%40example.com');
    return (body as unknown as unknown[]).length > 0 || undefined;
  });
  await bounceTo(returnPath, 'asked-late');
  await bounceTo(returnPath, 'asked-late');
  const report = await waitUntil('the report', () => reportsOf('asked-late')[0]);
  assert.deepEqual(report.to, ['shop@shop.example']);
  const text = report.content.toString('latin1');
  assert.match(text, /\r\nOriginal-Envelope-Id: late-1\r\n/);
  assert.match(text, /\r\nAction: failed\r\nStatus: 5\.1\.1\r\nRemote-MTA: dns; store\.example\.com\r\n/);
  assert.match(text, /\r\nDiagnostic-Code: smtp; 550 5\.1\.1 no such user\r\n/);
  const later = await submit('fence-late', ' NOTIFY=SUCCESS');
  assert.ok(later);
  await waitUntil('a later report', () => reportsOf('fence-late')[0]);
  assert.deepEqual([reportsOf('asked-late').length, reportsOf('unasked-late').length], [1, 0]);
});

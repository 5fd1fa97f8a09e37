/**
 * Delivery reports (RFC 3461, RFC 3464) of messages submitted over SMTP, counted where they arrive: which outcome is reported to whom, the
 * content of the report, and that nothing is reported unrequested.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { type SinkMessage, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const SENDER = 'orders+17@shop.example';
let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink({
    script: {
      rcpt: ({ line }) => {
        if (line.includes('gone')) return '550 5.1.1 no such user here';
        return line.includes('later') ? '451 4.3.0 try again later' : undefined;
      },
    },
  });
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});

after(async () => {
  await service?.close();
  await sink?.close();
});

async function open(credential = service.smtpCredential): Promise<Talker> {
  const talker = await connectTalker(service.smtpPort);
  assert.match(await talker.reply(), /^220 /);
  await talker.logIn(credential);
  return talker;
}

interface Submitted {
  mark: string;
  mail?: string;
  rcpt: string[];
  from?: string;
  body?: string;
  talker?: Talker;
}

/** Submits one message; returns the id of its first recipient's message. */
async function submit({
  mark,
  mail = '',
  rcpt,
  from = SENDER,
  body = 'Grüße\r\n',
  talker,
}: Submitted): Promise<string> {
  const session = talker ?? (await open());
  assert.match(await session.say(`MAIL FROM:<${from}>${mail}`), /^250 /);
  for (const one of rcpt) assert.match(await session.say(`RCPT TO:${one}`), /^250 /);
  assert.match(await session.say('DATA'), /^354 /);
  const header = `From: Shop <${from}>\r\nTo: ann@example.com\r\nSubject: ${mark}\r\nMessage-ID: <${mark}@shop.example>\r\n`;
  session.send(Buffer.from(`${header}\r\n${body}.\r\n`));
  const reply = await session.reply();
  const found = /^250 2\.0\.0 queued as (msg_\w+)$/.exec(reply);
  assert.ok(found, reply);
  session.destroy();
  return found[1]!;
}

/** Reports about the message with this mark, at the sink. */
const reportsOf = (mark: string): SinkMessage[] =>
  sink.messages.filter((one) => one.from === '' && one.content.includes(`<${mark}@shop.example>`));

const reportOf = (mark: string): Promise<SinkMessage> =>
  waitUntil(`the report about ${mark}`, () => reportsOf(mark)[0], 20_000);

/** The parts of multipart/report as received. */
function partsOf({ content }: SinkMessage): { header: string; parts: string[] } {
  const text = content.toString('latin1');
  const header = text.slice(0, text.indexOf('\r\n\r\n') + 2);
  const boundary = /boundary="([^"]+)"/.exec(header)![1]!;
  const pieces = text.split(`\r\n--${boundary}`);
  assert.equal(pieces.length, 5, text);
  return { header, parts: pieces.slice(1, 4).map((piece) => piece.slice(2)) };
}

/** Reports about `mark` are complete once one about a later message has arrived, because reports are sent in order. */
async function settled(): Promise<void> {
  const mark = `fence-${Math.random().toString(36).slice(2)}`;
  await submit({ mark, rcpt: [`<gone-${mark}@example.com> NOTIFY=FAILURE`] });
  await reportOf(mark);
}

test('reports a bounce to the requesting envelope sender with ENVID, ORCPT, and the full message', async () => {
  const id = await submit({
    mark: 'full-mark',
    mail: ' RET=FULL ENVID=order+2B17+3Dx',
    rcpt: ['<gone@example.com> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;list+2Bx@Example.com'],
  });
  const report = await reportOf('full-mark');
  assert.deepEqual([report.from, report.to], ['', [SENDER]]);
  const { header, parts } = partsOf(report);
  assert.match(header, /^Content-Type: multipart\/report; report-type=delivery-status;\r\n/m);
  assert.match(header, /^From: "?Mail Delivery System"? <postmaster@postrider\.test>\r\n/m);
  assert.match(header, /^To: orders\+17@shop\.example\r\n/m);
  assert.match(header, /^Auto-Submitted: auto-replied\r\n/m);
  assert.match(header, /^References: <full-mark@shop\.example>\r\n/m);
  const [human, status, original] = parts as [string, string, string];
  assert.match(human, /gone@example\.com could not be delivered/);
  assert.match(human, /550 5\.1\.1 no such user here/);
  assert.match(status, /^Content-Type: message\/delivery-status\r\n\r\n/);
  const fields = status.slice(status.indexOf('\r\n\r\n') + 4);
  assert.match(fields, /^Original-Envelope-Id: order\+17=x\r\nReporting-MTA: dns; postrider\.test\r\nArrival-Date: /);
  const recipient = fields.slice(fields.indexOf('\r\n\r\n') + 4);
  assert.match(
    recipient,
    /^Original-Recipient: rfc822; list\+x@Example\.com\r\nFinal-Recipient: rfc822; gone@example\.com\r\nAction: failed\r\nStatus: 5\.1\.1\r\nRemote-MTA: dns; 127\.0\.0\.1\r\nDiagnostic-Code: smtp; 550 5\.1\.1 no such user here\r\nLast-Attempt-Date: [^\r]+\r\n$/,
  );
  assert.match(original, /^Content-Type: message\/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\nFrom: Shop /);
  assert.ok(report.content.includes(Buffer.from('\r\n\r\nGrüße\r\n')), 'the body is returned byte for byte');
  const parsed = await PostalMime.parse(report.content);
  assert.match(parsed.text ?? '', /could not be delivered/);

  const events = (await service.api.get(`/events?messageId=${id}`)).body as unknown as JsonObject[];
  assert.deepEqual(events.map(({ eventType, envid }) => [eventType, envid]).sort(), [
    ['Bounce', 'order+17=x'],
    ['Send', 'order+17=x'],
  ]);
  await settled();
  assert.equal(reportsOf('full-mark').length, 1);
});

test('without RET a report returns only the headers', async () => {
  await submit({ mark: 'header-mark', rcpt: ['<gone2@example.com> notify=failure'] });
  const { parts } = partsOf(await reportOf('header-mark'));
  assert.match(parts[2]!, /^Content-Type: text\/rfc822-headers\r\n/);
  assert.match(parts[2]!, /\r\nSubject: header-mark\r\n/);
  assert.ok(!parts[2]!.includes('Gr'));
});

test('reports nothing unrequested, for NEVER, or for outcomes not requested', async () => {
  await submit({ mark: 'unasked-mark', rcpt: ['<gone3@example.com>'] });
  await submit({ mark: 'never-mark', rcpt: ['<gone4@example.com> NOTIFY=NEVER'] });
  await submit({ mark: 'success-only-mark', rcpt: ['<gone5@example.com> NOTIFY=SUCCESS,DELAY'] });
  await submit({ mark: 'failure-only-mark', rcpt: ['<ann@example.com> NOTIFY=FAILURE'] });
  await submit({ mark: 'orcpt-only-mark', rcpt: ['<gone6@example.com> ORCPT=rfc822;x@example.com'] });
  await settled();
  for (const mark of ['unasked', 'never', 'success-only', 'failure-only', 'orcpt-only'])
    assert.equal(reportsOf(`${mark}-mark`).length, 0, mark);
});

test('SUCCESS reports the delivery, and DELAY the first deferral', async () => {
  await submit({ mark: 'success-mark', mail: ' RET=FULL', rcpt: ['<ann@example.com> NOTIFY=SUCCESS'] });
  await submit({ mark: 'delay-mark', rcpt: ['<later@example.com> NOTIFY=DELAY,FAILURE'] });
  const success = partsOf(await reportOf('success-mark'));
  assert.match(success.parts[1]!, /\r\nAction: relayed\r\nStatus: 2\.0\.0\r\n/);
  // RFC 3461 §4.3: RET applies to failures.
  assert.match(success.parts[2]!, /^Content-Type: text\/rfc822-headers\r\n/);
  const delay = partsOf(await reportOf('delay-mark'));
  assert.match(delay.parts[1]!, /\r\nAction: delayed\r\nStatus: 4\.3\.0\r\n/);
  assert.match(delay.parts[1]!, /\r\nWill-Retry-Until: /);
  assert.match(delay.parts[0]!, /You do not need to send it again/);
});

test('each recipient that requested a report gets a separate one', async () => {
  await submit({
    mark: 'several-mark',
    rcpt: ['<gone7@example.com> NOTIFY=FAILURE', '<gone8@example.com> NOTIFY=FAILURE', '<gone9@example.com>'],
  });
  await waitUntil('two reports', () => reportsOf('several-mark').length === 2 || undefined, 20_000);
  await settled();
  const named = reportsOf('several-mark').map(
    ({ content }) => /Final-Recipient: rfc822; (\S+)/.exec(content.toString())![1],
  );
  assert.deepEqual(named.sort(), ['gone7@example.com', 'gone8@example.com']);
});

test("a credential's deliveryReports sends bounce reports unrequested; NOTIFY=NEVER wins", async () => {
  const made = await service.api.post('/smtp-credentials', { mode: 'live', deliveryReports: 'failures' });
  assert.equal(made.status, 201, made.text);
  assert.equal(made.body.deliveryReports, 'failures');
  const [listed] = (await service.api.get('/smtp-credentials')).body as unknown as JsonObject[];
  assert.equal(listed!.deliveryReports, 'failures');
  const credential = made.body as unknown as { username: string; password: string };
  await submit({
    mark: 'credential-never-mark',
    rcpt: ['<gone10@example.com> NOTIFY=NEVER'],
    talker: await open(credential),
  });
  await submit({ mark: 'credential-ok-mark', rcpt: ['<ann@example.com>'], talker: await open(credential) });
  await submit({ mark: 'credential-mark', rcpt: ['<gone11@example.com>'], talker: await open(credential) });
  assert.match(partsOf(await reportOf('credential-mark')).parts[1]!, /\r\nAction: failed\r\n/);
  await settled();
  assert.deepEqual([reportsOf('credential-never-mark').length, reportsOf('credential-ok-mark').length], [0, 0]);
  assert.equal((await service.api.post('/smtp-credentials', { deliveryReports: 'all' })).status, 400);
  const byCommand = await service.cli(
    'smtp-credential',
    'create',
    service.live.accountId,
    '--delivery-reports',
    'failures',
  );
  const [last] = (await service.api.get('/smtp-credentials')).body as unknown as JsonObject[];
  assert.deepEqual([last!.smtpCredentialId, last!.deliveryReports], [byCommand.smtpCredentialId, 'failures']);
});

test('a suppressed recipient counts as a failure; a suppressed sender receives no report', async () => {
  await service.api.post('/suppressions', { email: 'listed@example.com' });
  await submit({ mark: 'suppressed-mark', rcpt: ['<listed@example.com> NOTIFY=FAILURE'] });
  const { parts } = partsOf(await reportOf('suppressed-mark'));
  assert.match(parts[1]!, /\r\nAction: failed\r\nStatus: 5\.7\.1\r\nDiagnostic-Code: x-postrider; /);
  await service.api.post('/suppressions', { email: 'silent@shop.example' });
  await submit({ mark: 'silent-mark', from: 'silent@shop.example', rcpt: ['<gone12@example.com> NOTIFY=FAILURE'] });
  await settled();
  assert.equal(reportsOf('silent-mark').length, 0);
});

test('a bounced report is not reported', async () => {
  await submit({ mark: 'loop-mark', from: 'gone-sender@shop.example', rcpt: ['<gone13@example.com> NOTIFY=FAILURE'] });
  await waitUntil(
    'the report to be refused',
    () => sink.commands.some((line) => line.includes('gone-sender@shop.example')) || undefined,
  );
  await settled();
  assert.equal(reportsOf('loop-mark').length, 0);
});

test('the sandbox keeps ENVID in its events and sends no report', async () => {
  const made = (await service.sandboxApi.post('/smtp-credentials', {})).body;
  const first = await open({ username: made.username, password: made.password });
  const id = await submit({
    mark: 'sandbox-mark',
    mail: ' ENVID=e1',
    rcpt: ['<bounced@example.com> NOTIFY=FAILURE'],
    talker: first,
  });
  const events = await waitUntil('the bounce', async () => {
    const all = (await service.sandboxApi.get(`/events?messageId=${id}`)).body as unknown as JsonObject[];
    return all.length === 2 ? all : undefined;
  });
  assert.deepEqual(
    events.map(({ envid }) => envid),
    ['e1', 'e1'],
  );
  await settled();
  assert.equal(reportsOf('sandbox-mark').length, 0);
});

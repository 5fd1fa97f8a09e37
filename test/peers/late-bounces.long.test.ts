/**
 * Real servers that accept a message and return it later: their bounces arrive at the inbound port and become one Bounce of the right
 * message. The test reads the envelope sender at the peer, and does not compute tokens.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { BOUNCE_DOMAIN, bounceAddresses, bring } from '../kit/bounce-receiver.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import type { SinkContext } from '../kit/smtp-sink-types.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { noExim, startExim } from './private-exim.ts';
import { noOpenSmtpd, startOpenSmtpd } from './private-opensmtpd.ts';
import { startPostfix } from './private-postfix.ts';

const DOMAIN = 'later.example';
const LATE = 30_000;

/** A service whose mail goes to this port, and its view of the sent messages. */
async function serviceTo(t: TestContext, { port, inboundPort }: { port: number; inboundPort: number }) {
  const dns = await fakeDns();
  const service = await startService({
    env: {
      ...bounceAddresses,
      POSTRIDER_INBOUND_PORT: String(inboundPort),
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${port}`,
      POSTRIDER_DNS_SERVERS: dns.server,
    },
  });
  t.after(async () => {
    await service.close();
    await dns.close();
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const send = async (to: string | string[]): Promise<string[]> => {
    const body = { from: 'Shop <orders@shop.example>', subject: 'Order', text: 'Thank you', to };
    const { data } = (await service.api.post('/send', body)).body;
    return data.recipients.map((one: JsonObject) => one.messageId);
  };
  /** Waits until its last event has this type. */
  const until = (id: string, type: string): Promise<JsonObject> =>
    waitUntil(
      `${type} of ${id}`,
      async () => {
        const { body } = await service.api.get(`/messages/${id}`);
        return body.timeline.at(-1)?.eventType === type && body;
      },
      LATE,
    );
  const counted = async (result: string): Promise<number> => {
    const { text } = await service.api.get('/metrics');
    return Number(new RegExp(`^postrider_inbound_reports_total\\{result="${result}"\\} (\\d+)$`, 'm').exec(text)![1]);
  };
  return { service, send, until, counted };
}

const types = (message: JsonObject): string[] => message.timeline.map((event: JsonObject) => event.eventType);

test('Postfix returns mail that its next hop rejects, and reports delays', {
  skip: missing('postfix') || (process.getuid?.() === 0 ? false : 'a private Postfix needs root'),
  timeout: 120_000,
}, async (t) => {
  const inboundPort = await freePort();
  const rcpt = ({ line }: SinkContext): string =>
    /closed@/.test(line) ? '550 5.2.1 this mailbox was disabled' : '550 5.1.1 <gone@later.example>: no such user here';
  const behind = await smtpSink({ script: { rcpt } });
  const closed = await freePort();
  const ways = [
    ...['closed', 'gone'].map((user) => `{ ${user}@${DOMAIN} = smtp:[127.0.0.1]:${behind.port} }`),
    `{ slow@${DOMAIN} = smtp:[127.0.0.1]:${closed} }`,
    `{ ${BOUNCE_DOMAIN} = smtp:[127.0.0.1]:${inboundPort} }`,
  ];
  const postfix = await startPostfix({
    domain: DOMAIN,
    users: ['closed', 'gone', 'slow', 'ann'],
    settings: {
      transport_maps: `inline:{ ${ways.join(' ')} }`,
      delay_warning_time: '1s',
      queue_run_delay: '1s',
      minimal_backoff_time: '1s',
      maximal_backoff_time: '2s',
      notify_classes: '',
    },
  });
  t.after(async () => {
    postfix.stop();
    await behind.close();
  });
  const { service, send, until, counted } = await serviceTo(t, { port: postfix.port, inboundPort });

  const all = await send(['closed', 'gone', 'slow', 'ann'].map((user) => `${user}@${DOMAIN}`));
  const [closedId, goneId, slowId, annId] = all as [string, string, string, string];
  const shut = await until(closedId, 'Bounce');
  assert.deepEqual([shut.status, types(shut)], ['bounced', ['Send', 'Delivery', 'Bounce']]);
  assert.deepEqual([shut.timeline[2].bounce.late, shut.timeline[2].bounce.category], [true, 'mailbox-disabled']);
  const gone = await until(goneId, 'Bounce');
  const { bounce } = gone.timeline[2];
  assert.deepEqual(
    [bounce.late, bounce.kind, bounce.category, bounce.smtpCode, bounce.enhancedCode, bounce.suppressed],
    [true, 'hard', 'mailbox-not-found', 550, '5.1.1', true],
  );
  assert.match(bounce.reply, /no such user here/);
  const slow = await until(slowId, 'DeliveryDelay');
  assert.deepEqual([slow.status, slow.timeline[2].deliveryDelay.late], ['delivered', true]);
  assert.equal((await service.api.get(`/messages/${annId}`)).body.status, 'delivered');
  assert.equal((await service.api.get(`/suppressions/gone@${DOMAIN}`)).body.reason, 'bounce');
  assert.equal(await counted('bounce'), 2);
  assert.match(postfix.log(), new RegExp(`from=<b\\+[a-z2-7]{45}@${BOUNCE_DOMAIN}>`), 'the return path at the peer');
});

test('Exim returns mail that it accepted', { skip: noExim(), timeout: 120_000 }, async (t) => {
  const inboundPort = await freePort();
  const exim = await startExim({ domain: DOMAIN, bouncesTo: inboundPort });
  t.after(() => exim.stop());
  const { send, until } = await serviceTo(t, { port: exim.port, inboundPort });
  const [id] = await send(`ann@${DOMAIN}`);
  const message = await until(id!, 'Bounce');
  assert.deepEqual(types(message), ['Send', 'Delivery', 'Bounce']);
  assert.deepEqual([message.status, message.timeline[2].bounce.late], ['bounced', true]);
  assert.match(message.timeline[2].bounce.reply, /this mailbox was closed/);
});

test('OpenSMTPD returns mail that its next hop rejects', {
  skip: noOpenSmtpd(),
  timeout: 120_000,
}, async (t) => {
  const inboundPort = await freePort();
  const behind = await smtpSink({ script: { rcpt: '550 5.1.1 no such user here' } });
  const bounces = { domain: BOUNCE_DOMAIN, port: inboundPort };
  const smtpd = await startOpenSmtpd({ domain: DOMAIN, relayPort: behind.port, bounces });
  t.after(async () => {
    await smtpd.stop();
    await behind.close();
  });
  const { send, until } = await serviceTo(t, { port: smtpd.port, inboundPort });
  const [id] = await send(`ann@${DOMAIN}`);
  const message = await until(id!, 'Bounce');
  assert.deepEqual(types(message), ['Send', 'Delivery', 'Bounce']);
  const { bounce } = message.timeline[2];
  assert.deepEqual([bounce.late, bounce.category, bounce.suppressed], [true, 'mailbox-not-found', true]);
});

/** QSBMF, as sent by qmail-send: text, the addresses in paragraphs, and the message below. */
const qmailBounce = (recipient: string, mail: string): Buffer =>
  Buffer.from(
    `Date: 23 Nov 2026 09:00:00 -0000
From: MAILER-DAEMON@qmail.example
Subject: failure notice

Hi. This is the qmail-send program at qmail.example.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<${recipient}>:
192.0.2.7 does not like recipient.
Remote host said: 550 5.1.1 sorry, no mailbox here by that name
Giving up on 192.0.2.7.

--- Below this line is a copy of the message.

Return-Path: <x@y.example>
${mail}`.replace(/\r?\n/g, '\r\n'),
  );

test('a bounce in qmail format, delivered twice', async (t) => {
  const inboundPort = await freePort();
  const sink = await smtpSink();
  t.after(() => sink.close());
  const { service, send, until, counted } = await serviceTo(t, { port: sink.port, inboundPort });
  const [id] = await send(`ann@${DOMAIN}`);
  const taken = await waitUntil('the mail', () => sink.messages[0]);
  await until(id!, 'Delivery');
  const report = { to: taken.from, content: qmailBounce(`ann@${DOMAIN}`, taken.content.toString('latin1')) };
  for (let time = 0; time < 2; time += 1) assert.match(await bring(inboundPort, report), /^250 /);
  const message = await until(id!, 'Bounce');
  await waitUntil('the second one', async () => (await counted('repeated')) === 1);
  assert.deepEqual(types((await service.api.get(`/messages/${id}`)).body), ['Send', 'Delivery', 'Bounce']);
  assert.deepEqual([message.timeline[2].bounce.late, message.timeline[2].bounce.smtpCode], [true, 550]);
});

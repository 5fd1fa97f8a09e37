/**
 * Direct delivery by MX, with a local DNS server and receivers: preference and fallback, no MX, null MX, names that do not exist or cannot
 * be looked up, forbidden addresses, opportunistic and required TLS, and mail for inbound routes of the service itself.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { JsonObject } from '../kit/api.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { bringMail, openInbound } from '../kit/inbound-rig.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';

let dns: FakeDns;
let first: SmtpSink;
let second: SmtpSink;
let service: Service;
/** File of the CA that the service trusts in addition to the system's. */
let trusted: string;

before(async () => {
  first = await smtpSink();
  const certificate = testCertificate(['backup.mx.example']);
  trusted = path.join(mkdtempSync(path.join(os.tmpdir(), 'postrider-trusted-')), 'ca.pem');
  writeFileSync(trusted, certificate.cert);
  second = await smtpSink({ host: '127.0.0.2', port: first.port, tls: 'starttls', certificate });
  dns = await fakeDns({
    'main.mx.example': { A: ['127.0.0.1'] },
    'backup.mx.example': { A: ['127.0.0.2'] },
    'inside.mx.example': { A: ['10.1.2.3'] },
    'both.example': {
      MX: [
        [20, 'backup.mx.example'],
        [10, 'main.mx.example'],
      ],
    },
    'plain.example': { MX: [[10, 'main.mx.example']] },
    'other-name.example': { MX: [[10, 'unproven.mx.example']] },
    'unproven.mx.example': { A: ['127.0.0.2'] },
    'secure.example': { MX: [[10, 'backup.mx.example']] },
    'no-mx.example': { A: ['127.0.0.2'] },
    'null.example': { MX: [[0, '.']] },
    'out.mx.example': { A: ['127.0.0.1'] },
    'ours.example': {
      MX: [
        [10, 'out.mx.example'],
        [20, 'main.mx.example'],
      ],
    },
    'in.shop.example': { MX: [[10, 'out.mx.example']] },
    'inside.example': { MX: [[10, 'inside.mx.example']] },
    'broken.example': { fail: 'SERVFAIL' },
  });
  service = await startService({
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(first.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
      POSTRIDER_SMTP_HOSTNAME: 'out.mx.example',
      POSTRIDER_INBOUND_PORT: '0',
      NODE_EXTRA_CA_CERTS: trusted,
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});

after(async () => {
  await service?.close();
  await first?.close();
  await second?.close();
  await dns?.close();
  if (trusted) rmSync(path.dirname(trusted), { recursive: true });
});

async function send(to: string, extra: JsonObject = {}): Promise<string> {
  const body = { from: 'orders@shop.example', to, subject: 'Hello', text: 'Hello', ...extra };
  const answer = await service.api.post('/send', body);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}

/** The message once it has this event, and the details of the event. */
async function outcome(messageId: string, eventType: string): Promise<{ message: JsonObject; event: JsonObject }> {
  const read = async () => (await service.api.get(`/messages/${messageId}`)).body;
  const event = await waitUntil(`${eventType} of ${messageId}`, async () =>
    ((await read()).timeline as JsonObject[]).find((one) => one.eventType === eventType),
  );
  // A response may show an event of a newer status than its own (findMessageOperation).
  return { message: await read(), event };
}

const arrivedAt = (sink: SmtpSink, to: string): boolean => sink.messages.some((one) => one.to.includes(to));

test('delivers to the MX host with the lowest preference', async () => {
  const { event } = await outcome(await send('a@both.example'), 'Delivery');
  assert.equal(event.delivery.remoteHost, 'main.mx.example');
  assert.ok(arrivedAt(first, 'a@both.example'));
  assert.equal(arrivedAt(second, 'a@both.example'), false);
});

test('delivers to the address of a domain without MX', async () => {
  await outcome(await send('b@no-mx.example'), 'Delivery');
  assert.ok(arrivedAt(second, 'b@no-mx.example'));
});

test('uses TLS if it is offered, and reports it', async () => {
  const { event, message } = await outcome(await send('c@secure.example'), 'Delivery');
  assert.equal(event.delivery.tls, 'TLSv1.3');
  assert.equal(message.attempts[0].tls, 'TLSv1.3');
  assert.equal(second.messages.find((one) => one.to.includes('c@secure.example'))?.tls, 'TLSv1.3');
});

test('requireTls "verified" delivers only if the certificate matches the MX host', async () => {
  const { message } = await outcome(await send('v@secure.example', { requireTls: 'verified' }), 'Delivery');
  assert.equal(message.attempts[0].tls, 'TLSv1.3');
  const { event } = await outcome(await send('v@other-name.example', { requireTls: 'verified' }), 'DeliveryDelay');
  assert.equal(event.deliveryDelay.category, 'tls');
  assert.match(event.deliveryDelay.reply, /for another name/);
  assert.equal(arrivedAt(second, 'v@other-name.example'), false);
  await outcome(await send('w@other-name.example', { requireTls: true }), 'Delivery');
  assert.equal(second.messages.find((one) => one.to.includes('w@other-name.example'))?.tls, 'TLSv1.3');
});

test('requireTls never falls back to plaintext', async () => {
  const messageId = await send('d@plain.example', { requireTls: true });
  await waitUntil('an outcome', async () => {
    const { body } = await service.api.get(`/messages/${messageId}`);
    return body.attempts.length > 0 && !['queued', 'sending'].includes(body.status);
  });
  const { body } = await service.api.get(`/messages/${messageId}`);
  assert.ok(['delayed', 'bounced'].includes(body.status), body.status);
  assert.equal(arrivedAt(first, 'd@plain.example'), false);
});

test('a null MX domain bounces immediately without a connection', async () => {
  const before = first.connections.total + second.connections.total;
  const { event } = await outcome(await send('e@null.example'), 'Bounce');
  assert.equal(event.bounce.kind, 'hard');
  assert.equal(event.bounce.enhancedCode, '5.1.10');
  assert.equal(first.connections.total + second.connections.total, before);
});

test('a domain whose best MX host is this service bounces without a connection', async () => {
  const before = first.connections.total + second.connections.total;
  const { event } = await outcome(await send('l@ours.example'), 'Bounce');
  const { enhancedCode, owner, suppressed } = event.bounce;
  assert.deepEqual([enhancedCode, owner, suppressed], ['5.4.6', 'service', false]);
  assert.equal(first.connections.total + second.connections.total, before);
});

/** The inbound messages, newest first. */
async function cameIn(recipient: string): Promise<JsonObject[]> {
  const all = (await service.api.get('/inbound?limit=100')).body as unknown as JsonObject[];
  return all.filter((one) => one.recipient === recipient);
}

test('mail to an inbound route of this service arrives once; other recipients are unknown', async () => {
  const seen = first.connections.total + second.connections.total;
  assert.equal((await service.api.post('/inbound-routes', { match: 'support@in.shop.example' })).status, 201);
  const photo = Buffer.from('a photo');
  const attachments = [{ name: 'a.jpg', contentType: 'image/jpeg', content: photo.toString('base64') }];
  const sent = await send('Support@in.shop.example', { text: 'It broke.', attachments });
  const { event } = await outcome(sent, 'Delivery');
  assert.equal(event.delivery.remoteHost, 'out.mx.example');
  assert.match(event.delivery.reply, /^250 2\.0\.0 queued as inb_/);
  const [mail] = await waitUntil('the mail', async () => {
    const found = await cameIn('Support@in.shop.example');
    return found.length > 0 && found;
  });
  const { inboundId, eventId, content } = (await service.api.get(`/inbound/${mail!.inboundId}`)).body;
  assert.deepEqual([mail!.outcome, content.text.trim(), content.inReplyTo], ['event', 'It broke.', null]);
  const events = (await service.api.get(`/events?messageId=${inboundId}`)).body as unknown as JsonObject[];
  assert.deepEqual(
    events.map((one) => [one.eventId, one.eventType]),
    [[eventId, 'Inbound']],
  );
  const { url } = events[0]!.inbound.attachments[0];
  assert.equal(new URL(url).port, new URL(service.url).port, 'links use the bound port');
  assert.equal(await (await fetch(url)).text(), photo.toString());

  const nobody = (await outcome(await send('nobody@in.shop.example'), 'Bounce')).event.bounce;
  assert.deepEqual([nobody.enhancedCode, nobody.category], ['5.1.1', 'mailbox-not-found']);
  assert.equal(first.connections.total + second.connections.total, seen, 'nothing was sent');
});

test('mail that returns to an inbound route stops there, even if an application keeps resending it', async () => {
  assert.equal((await service.api.post('/inbound-routes', { match: 'again+*@in.shop.example' })).status, 201);
  const bring = async (to: string, raw: string): Promise<void> => {
    const talker = await openInbound(service.inboundPort);
    assert.match(await bringMail(talker, to, raw), /^250/);
    talker.destroy();
  };
  const outcomesOf = async (to: string, count: number): Promise<string[]> => {
    const found = await waitUntil(`${count} messages`, async () => {
      const mails = await cameIn(to);
      return mails.length >= count && mails;
    });
    return found.map(({ outcome: one }) => one);
  };
  const to = 'again+1@in.shop.example';
  await send(to);
  assert.deepEqual(await outcomesOf(to, 1), ['event']);
  const raw = (await service.api.get(`/inbound/${(await cameIn(to))[0]!.inboundId}/content`)).text;
  // As if forwarded to another address of the route.
  await bring('again+2@in.shop.example', raw);
  assert.deepEqual(await outcomesOf('again+2@in.shop.example', 1), ['own-mail']);
  // As an application that resubmits what it receives to the same address.
  const talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn(service.smtpCredential);
  for (const line of ['MAIL FROM:<orders@shop.example>', `RCPT TO:<${to}>`, 'DATA'])
    assert.match(await talker.say(line), /^[23]/);
  talker.send(`${raw}.\r\n`);
  assert.match(await talker.reply(), /^250/);
  talker.destroy();
  assert.deepEqual(await outcomesOf(to, 2), ['own-mail', 'event']);
  const farTravelled = await openInbound(service.inboundPort);
  assert.match(await bringMail(farTravelled, to, `${'Received: by a\r\n'.repeat(31)}\r\nx\r\n`), /^554 5\.4\.6 /);
  farTravelled.destroy();
  await waitUntil('loops to be counted', async () => {
    const { text } = await service.api.get('/metrics');
    const counts = ['own-mail', 'too-many-hops', 'auto-reply'].map((what) => {
      const [, count] = new RegExp(`^postrider_inbound_messages_total\\{outcome="${what}"\\} (\\d+)$`, 'm').exec(text)!;
      return Number(count);
    });
    return counts.join() === '2,1,0';
  });
});

test('a nonexistent domain bounces immediately', async () => {
  const { event } = await outcome(await send('f@nowhere.example'), 'Bounce');
  assert.equal(event.bounce.category, 'domain-not-found');
  assert.equal(event.bounce.kind, 'hard');
});

test('a domain that recently accepted mail and disappears is retried', async () => {
  dns.zone['vanishing.example'] = { A: ['127.0.0.2'] };
  await outcome(await send('j@vanishing.example'), 'Delivery');
  // The service remembers where the domain was; it counts deliveries once a minute and at startup.
  await service.kill('SIGTERM');
  delete dns.zone['vanishing.example'];
  await service.restart();
  const database = new DatabaseSync(dataDirectory(service.dataDir).databaseFile, { readOnly: true });
  const counted = database.prepare(
    "SELECT 1 FROM statistics WHERE group_value = 'vanishing.example' AND delivered > 0",
  );
  await waitUntil('the delivery to be counted', () => counted.get() !== undefined);
  database.close();
  const { event } = await outcome(await send('k@vanishing.example'), 'DeliveryDelay');
  assert.equal(event.deliveryDelay.category, 'domain-not-found');
  assert.match(event.deliveryDelay.reply, /accepted mail in the last 30 days/);
  assert.equal(event.deliveryDelay.suppressed, false);
});

test('a DNS failure defers the message', async () => {
  const { message } = await outcome(await send('g@broken.example'), 'DeliveryDelay');
  assert.equal(message.status, 'delayed');
});

test('never connects to a private address, and does not blame the recipient', async () => {
  const { event } = await outcome(await send('h@inside.example'), 'Bounce');
  assert.equal(event.bounce.category, 'policy');
  assert.equal(event.bounce.suppressed, false);
  assert.equal(event.bounce.owner, 'service');
  assert.match(event.bounce.reply, /addresses that are not public \(inside\.mx\.example \[10\.1\.2\.3\]/);
  assert.match(event.bounce.advice, /POSTRIDER_MX_ALLOW/);
});

test('tries the next MX host if the first one rejects the connection', async () => {
  first.setScript({ banner: '554 5.7.1 not today' });
  first.dropAll();
  const { event } = await outcome(await send('i@both.example'), 'Delivery');
  assert.equal(event.delivery.remoteHost, 'backup.mx.example');
  assert.ok(arrivedAt(second, 'i@both.example'));
  first.setScript({});
});

test('neither receiver saw a protocol violation', () => {
  assert.deepEqual([...first.violations, ...second.violations], []);
});

/**
 * The first steps of a new user: start the service, send with one call, see the message arrive at a real SMTP server with valid DKIM
 * signatures, receive signed events at a webhook, and look up the delivery result.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import PostalMime from 'postal-mime';
import { Webhook } from 'standardwebhooks';
import type { JsonObject } from '../kit/api.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SinkMessage, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const FROM = 'Shop <orders@shop.example>';
let sink: SmtpSink;
let catcher: WebhookCatcher;
let service: Service;
let dns: FakeDns;
let domainId = '';
let secret = '';

before(async () => {
  sink = await smtpSink();
  dns = await fakeDns();
  catcher = await webhookCatcher();
  service = await startService({
    env: {
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
      POSTRIDER_DNS_SERVERS: dns.server,
    },
  });
  const domain = await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  domainId = String(domain.domainId);
  const webhook = await service.api.post('/webhooks', {
    url: catcher.url,
    events: ['Send', 'Delivery', 'Bounce', 'DeliveryDelay', 'Reject'],
  });
  assert.equal(webhook.status, 201, webhook.text);
  secret = webhook.body.secret;
});

after(async () => {
  await service?.close();
  await sink?.close();
  await catcher?.close();
  await dns?.close();
});

async function send(extra: JsonObject = {}, headers?: Record<string, string>): Promise<JsonObject> {
  const body = { from: FROM, to: 'ann@example.com', subject: 'Order 17', html: '<p>Thank you</p>', ...extra };
  const answer = await service.api.post('/send', body, headers);
  assert.equal(answer.status, 202, answer.text);
  assert.match(answer.headers['x-request-id'] ?? '', /^req_/);
  return answer.body.data;
}

function arrived(recipient: string): Promise<SinkMessage> {
  return waitUntil(`the message to ${recipient}`, () => sink.messages.find((one) => one.to.includes(recipient)));
}

/** Events of this type that the webhook received for a message, with body and headers. */
function caught(
  eventType: string,
  messageId: string,
): { event: JsonObject; text: string; headers: Record<string, string> }[] {
  return catcher.requests
    .map((one) => ({ event: JSON.parse(one.body) as JsonObject, text: one.body, headers: strings(one.headers) }))
    .filter(({ event }) => event.eventType === eventType && event.messageId === messageId);
}

function strings(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

/** Answers DNS queries from the records that the service asks its customer to publish. */
async function publishedKeys(): Promise<(name: string, type: string) => Promise<string[][]>> {
  const records = await service.api.get(`/domains/${domainId}/dns-records`);
  assert.equal(records.status, 200, records.text);
  const list = records.body as unknown as { type: string; name: string; value: string }[];
  return async (name, type) => {
    const found = list.filter((one) => one.type === type && one.name.replace(/\.$/, '') === name);
    if (found.length === 0) throw Object.assign(new Error('no such record'), { code: 'ENOTFOUND' });
    return found.map((one) => [one.value]);
  };
}

test('an accepted message arrives with a valid DKIM signature', async () => {
  const data = await send();
  assert.match(data.messageId, /^msg_[0-9A-Za-z]+$/);
  const { headerMessageId, ...answer } = data;
  assert.match(headerMessageId, /^<[^<>@\s]+@shop\.example>$/);
  assert.deepEqual(
    { ...answer, messageId: '', recipients: [] },
    { message: 'queued', messageId: '', from: FROM, status: 'queued', totalRecipients: 1, recipients: [] },
  );
  const wanted = { email: 'ann@example.com', role: 'to', status: 'queued', messageId: data.messageId };
  assert.deepEqual(data.recipients, [wanted]);

  const mail = await arrived('ann@example.com');
  assert.equal(mail.from, 'orders@shop.example');
  const parsed = await PostalMime.parse(mail.content);
  assert.equal(parsed.subject, 'Order 17');
  assert.equal(parsed.messageId, headerMessageId);
  assert.equal(parsed.html?.trim(), '<p>Thank you</p>');
  assert.equal(parsed.text?.trim(), 'Thank you', 'the text is derived from the html');
  assert.deepEqual(parsed.from, { address: 'orders@shop.example', name: 'Shop' });

  const { results } = await dkimVerify(mail.content, { resolver: await publishedKeys() });
  const outcome = results.map((one: JsonObject) => `${one.algo} ${one.status.result} ${one.signingDomain}`).sort();
  assert.deepEqual(outcome, ['rsa-sha256 pass shop.example'], 'the Ed25519 key was not looked up yet');

  const altered = Buffer.from(mail.content.toString('latin1').replace('Thank you', 'Thank them'), 'latin1');
  const judged = await dkimVerify(altered, { resolver: await publishedKeys() });
  assert.ok(
    judged.results.length > 0 && judged.results.every((one: JsonObject) => one.status.result !== 'pass'),
    'control',
  );
});

test('adds an Ed25519 signature only once its key is found in the DNS', async () => {
  const shown = await service.api.get(`/domains/${domainId}`);
  assert.match(shown.body.dnsRecords[0].note, /operator marked this domain as verified without a DNS check/);
  for (const one of shown.body.dnsRecords.filter((record: JsonObject) => record.purpose === 'dkim')) {
    dns.zone[one.name] = { TXT: [one.value] };
  }
  const verified = await service.api.post(`/domains/${domainId}/verify`);
  assert.deepEqual(verified.body, { success: true, message: 'shop.example is verified.' });
  await send({ to: 'both@example.com' });
  const { results } = await dkimVerify((await arrived('both@example.com')).content, {
    resolver: await publishedKeys(),
  });
  const outcome = results.map((one: JsonObject) => `${one.algo} ${one.status.result} ${one.signingDomain}`).sort();
  assert.deepEqual(outcome, ['ed25519-sha256 pass shop.example', 'rsa-sha256 pass shop.example']);
});

test('posts the signed outcome to the webhook, once per event', async () => {
  const { messageId } = await send({ to: 'bob@example.com', tags: ['order'], metadata: { order: '17' } });
  const [delivery] = await waitUntil('the Delivery event', () => {
    const found = caught('Delivery', messageId);
    return found.length > 0 && found;
  });
  const verifier = new Webhook(secret);
  assert.deepEqual(verifier.verify(delivery!.text, delivery!.headers), delivery!.event);
  assert.throws(() => verifier.verify(delivery!.text.replace('bob', 'eve'), delivery!.headers), 'control');
  assert.equal(delivery!.headers['webhook-id'], delivery!.event.eventId);
  assert.match(delivery!.headers['content-type'] ?? '', /^application\/json/);
  const { eventId, timestamp, headerMessageId, delivery: detail, ...rest } = delivery!.event;
  assert.match(headerMessageId, /^<[^<>@\s]+@shop\.example>$/);
  assert.match(eventId, /^evt_/);
  assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(rest, {
    eventType: 'Delivery',
    messageId,
    mode: 'live',
    recipient: 'bob@example.com',
    from: FROM,
    subject: 'Order 17',
    tags: ['order'],
    metadata: { order: '17' },
  });
  assert.equal(detail.attempts, 1);
  assert.match(detail.reply, /^250 /);
  assert.equal(typeof detail.latencyMs, 'number');
  assert.equal(caught('Delivery', messageId).length, 1);
});

test('returns the message, its timeline, SMTP transcript, and content', async () => {
  const { messageId } = await send({ to: 'cleo@example.com' });
  const message = await waitUntil('the message to be delivered', async () => {
    const answer = await service.api.get(`/messages/${messageId}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body.status === 'delivered' && answer.body;
  });
  assert.equal(message.to, 'cleo@example.com');
  assert.equal(message.mode, 'live');
  assert.deepEqual(
    message.timeline.map((one: JsonObject) => one.eventType),
    ['Send', 'Delivery'],
  );
  assert.equal(message.attempts.length, 1);
  const dialogue = JSON.stringify(message.attempts[0].dialogue);
  for (const step of ['MAIL FROM:<orders@shop.example>', 'RCPT TO:<cleo@example.com>', '250 2.0.0 queued']) {
    assert.ok(dialogue.includes(step), `the SMTP transcript contains ${step}: ${dialogue}`);
  }
  const content = await service.api.get(`/messages/${messageId}/content`);
  assert.equal(content.status, 200);
  assert.match(content.text, /^Subject: Order 17\r?$/m);
  const list = await service.api.get(`/messages?to=cleo@example.com`);
  assert.deepEqual(
    (list.body as unknown as JsonObject[]).map((one) => one.messageId),
    [messageId],
  );
  const events = await service.api.get(`/events?messageId=${messageId}&order=asc`);
  assert.deepEqual(
    (events.body as unknown as JsonObject[]).map((one) => one.eventType),
    ['Send', 'Delivery'],
  );
});

test('several recipients get one email with a message id each, and Bcc stays hidden', async () => {
  const recipients = { to: 'dan@example.com, eve@example.com', cc: ['fay@example.com'], bcc: 'gus@example.com' };
  const data = await send({ ...recipients, subject: 'To many' });
  assert.deepEqual(
    data.recipients.map((one: JsonObject) => `${one.role} ${one.email}`),
    ['to dan@example.com', 'to eve@example.com', 'cc fay@example.com', 'bcc gus@example.com'],
  );
  assert.equal(new Set(data.recipients.map((one: JsonObject) => one.messageId)).size, 4);
  const copies = await waitUntil('all copies', () => {
    const found = sink.messages.filter((one) => one.content.includes('Subject: To many\r\n'));
    return found.flatMap((one) => one.to).length === 4 && found;
  });
  const ids = new Set(copies.map((one) => /^Message-ID: (.+)\r$/im.exec(one.content.toString('latin1'))?.[1]));
  assert.equal(ids.size, 1, 'one Message-ID');
  for (const copy of copies) {
    const header = copy.content.toString('latin1').split('\r\n\r\n')[0]!;
    assert.doesNotMatch(header, /gus@example\.com|^bcc:/im);
    assert.match(header, /dan@example\.com/);
  }
});

test('attachments, Unicode, and dots arrive byte for byte', async () => {
  const file = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7 + (index >> 8)) & 0xff));
  const text = '.dot\n..two dots\n.\nZażółć gęślą jaźń 🐎\n';
  await send({
    to: 'hal@example.com',
    subject: 'Zażółć gęślą jaźń 🐎',
    text,
    html: '<p>.<br>🐎</p>',
    attachments: [
      { name: 'faktura zażółć.bin', contentType: 'application/octet-stream', content: file.toString('base64') },
    ],
  });
  const mail = await arrived('hal@example.com');
  const parsed = await PostalMime.parse(mail.content);
  assert.equal(parsed.subject, 'Zażółć gęślą jaźń 🐎');
  assert.equal(parsed.text?.replaceAll('\r\n', '\n').trim(), text.trim());
  assert.equal(parsed.attachments[0]?.filename, 'faktura zażółć.bin');
  assert.ok(Buffer.from(parsed.attachments[0]!.content as ArrayBuffer).equals(file), 'the same bytes');
  const { results } = await dkimVerify(mail.content, { resolver: await publishedKeys() });
  assert.ok(results.length === 2 && results.every((one: JsonObject) => one.status.result === 'pass'));
});

test('a permanent rejection creates one Bounce with the remote reply', async () => {
  sink.setScript({ rcpt: ({ line }) => (line.includes('nobody@') ? '550 5.1.1 no such user' : undefined) });
  const { messageId } = await send({ to: 'nobody@example.com' });
  const [event] = await waitUntil('the Bounce', () => {
    const found = caught('Bounce', messageId);
    return found.length > 0 && found;
  });
  const { kind, category, smtpCode, enhancedCode, reply } = event!.event.bounce;
  assert.deepEqual(
    { kind, category, smtpCode, enhancedCode },
    { kind: 'hard', category: 'mailbox-not-found', smtpCode: 550, enhancedCode: '5.1.1' },
  );
  assert.match(reply, /no such user/);
  const list = await service.api.get('/suppressions');
  assert.ok(
    (list.body as unknown as JsonObject[]).some((one) => one.email === 'nobody@example.com' && one.reason === 'bounce'),
  );

  const again = await send({ to: 'nobody@example.com' });
  assert.equal(again.status, 'suppressed');
  await waitUntil('the Reject', () => caught('Reject', again.messageId).length === 1);
  sink.setScript({});
});

test('a temporary rejection creates a DeliveryDelay with the time of the next attempt', async () => {
  sink.setScript({ rcpt: ({ line }) => (line.includes('later@') ? '451 4.7.1 greylisted' : undefined) });
  const { messageId } = await send({ to: 'later@example.com' });
  const [event] = await waitUntil('the DeliveryDelay', () => {
    const found = caught('DeliveryDelay', messageId);
    return found.length > 0 && found;
  });
  const delay = event!.event.deliveryDelay;
  assert.equal(delay.smtpCode, 451);
  const waitMs = Date.parse(delay.nextAttemptAt) - Date.parse(event!.event.timestamp);
  assert.ok(waitMs >= 54_000 && waitMs <= 66_500, `the second attempt is after a minute, not ${waitMs} ms`);
  const { body } = await service.api.get(`/messages/${messageId}`);
  assert.equal(body.status, 'delayed');
  assert.equal(body.nextAttemptAt, delay.nextAttemptAt);
  sink.setScript({});
});

test('the sink saw no protocol violation', () => {
  assert.deepEqual(sink.violations, []);
});

/**
 * The sandbox key: the same calls, responses, and events as live, an outcome selected by the recipient, and nothing sent over the network.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink();
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
});

after(async () => {
  await service?.close();
  await sink?.close();
});

async function send(extra: JsonObject): Promise<JsonObject> {
  const body = { from: 'any@unverified.example', subject: 'Code 1234', text: 'Your code is 1234', ...extra };
  const answer = await service.sandboxApi.post('/send', body);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data;
}

async function timeline(messageId: string, last: string): Promise<string[]> {
  return waitUntil(`${last} of ${messageId}`, async () => {
    const { body } = await service.sandboxApi.get(`/messages/${messageId}`);
    const events = body.timeline as JsonObject[];
    const types = events.map((one) => String(one.eventType));
    if (!types.includes(last)) return undefined;
    const times = events.map((one) => String(one.timestamp));
    assert.deepEqual([...new Set(times)].sort(), times, 'timestamps order the events of a message');
    const ids = events.map((one) => String(one.eventId));
    assert.deepEqual([...ids].sort(), ids, 'and ids go by timestamps');
    return types;
  });
}

const outcomes: [recipient: string, last: string, events: string[], inbox: string][] = [
  ['ann@example.com', 'Delivery', ['Send', 'Delivery'], 'Delivered'],
  ['bounced@example.com', 'Bounce', ['Send', 'Bounce'], 'Bounced'],
  ['bounced+tag@example.com', 'Bounce', ['Send', 'Bounce'], 'Bounced'],
  ['complained@example.com', 'Complaint', ['Send', 'Delivery', 'Complaint'], 'Complained'],
  ['suppressed@example.com', 'Reject', ['Send', 'Reject'], 'Suppressed'],
  ['delayed@example.com', 'DeliveryDelay', ['Send', 'DeliveryDelay'], 'Delayed'],
];
for (const [recipient, last, events, inbox] of outcomes) {
  test(`${recipient} is ${inbox}`, async () => {
    const { messageId } = await send({ to: recipient });
    assert.deepEqual(await timeline(messageId, last), events);
    const list = await service.sandboxApi.get(`/sandbox/inbox?to=${encodeURIComponent(recipient)}`);
    assert.equal(list.status, 200, list.text);
    const [item] = list.body as unknown as JsonObject[];
    assert.equal(item?.messageId, messageId);
    assert.equal(item?.outcome, inbox);
    assert.equal(item?.subject, 'Code 1234');
    assert.equal(typeof item?.age, 'number');
  });
}

test('a simulated Reject does not mention a suppression list entry', async () => {
  const { messageId } = await send({ to: 'suppressed@example.com' });
  const { body } = await service.sandboxApi.get(`/messages/${messageId}`);
  const reject = (body.timeline as JsonObject[]).at(-1)!.reject as JsonObject;
  assert.equal(reject.reason, 'suppressed');
  assert.match(String(reject.advice), /there is nothing to remove/);
});

test('X-Sandbox-Outcome overrides the recipient, and can simulate a reply', async () => {
  const full = await send({ to: 'full@example.com', headers: { 'X-Sandbox-Outcome': '552 5.2.2 mailbox full' } });
  await timeline(full.messageId, 'Bounce');
  const { body } = await service.sandboxApi.get(`/messages/${full.messageId}`);
  const bounce = (body.timeline as JsonObject[]).find((one) => one.eventType === 'Bounce')?.bounce;
  assert.equal(bounce.smtpCode, 552);
  assert.equal(bounce.category, 'mailbox-full');
  const fine = await send({ to: 'bounced@example.com', headers: { 'X-Sandbox-Outcome': 'complained' } });
  assert.deepEqual(await timeline(fine.messageId, 'Complaint'), ['Send', 'Delivery', 'Complaint']);
});

test('simulated outcomes suppress no address, and the two modes are isolated', async () => {
  const list = await service.sandboxApi.get('/suppressions');
  assert.deepEqual(list.body, []);
  const live = await service.api.get('/messages');
  assert.deepEqual(live.body, []);
  const { messageId } = await send({ to: 'ann@example.com' });
  assert.equal((await service.api.get(`/messages/${messageId}`)).status, 404);
  assert.equal((await service.sandboxApi.get(`/messages/${messageId}`)).status, 200);
});

test('nothing is sent over the network', () => {
  assert.equal(sink.connections.total, 0);
});

/**
 * Time in the sandbox: moving its clock runs everything due in that period, in order and by that clock: retries over 72 hours, webhooks on
 * their own schedule, scheduled messages, expiry, and the age of the inbox.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { JsonObject } from '../kit/api.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { sendSubmission, uploadAll } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const HOUR = 3_600;
let service: Service;
let hook: WebhookCatcher;

before(async () => {
  hook = await webhookCatcher();
  service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
});
after(async () => {
  await service?.close();
  await hook?.close();
});

async function send(extra: JsonObject): Promise<string> {
  const body = { from: 'any@unverified.example', to: 'ann@example.com', subject: 'Hello', text: 'Hello', ...extra };
  const answer = await service.sandboxApi.post('/send', body);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}

async function message(id: string): Promise<JsonObject> {
  return (await service.sandboxApi.get(`/messages/${id}`)).body;
}

async function advance(seconds: number): Promise<{ now: string; ran: number }> {
  const answer = await service.sandboxApi.call({
    method: 'POST',
    path: '/sandbox/clock/advance',
    body: { seconds },
    timeoutMs: 60_000,
  });
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(Object.keys(answer.body), ['now', 'ran']);
  return answer.body as { now: string; ran: number };
}

const types = (shown: JsonObject): string[] => shown.timeline.map((event: JsonObject) => event.eventType);
const ms = (time: string): number => Date.parse(time);

test('always deferred mail runs through all attempts of its 72 hours in seconds, then expires', async () => {
  const id = await send({ headers: { 'X-Sandbox-Outcome': '451 4.3.0 later' } });
  await waitUntil('the first attempt', async () => (await message(id)).status === 'delayed');
  const { ran, now } = await advance(72 * HOUR);
  const shown = await message(id);
  assert.equal(shown.status, 'bounced');
  assert.deepEqual(types(shown), ['Send', 'DeliveryDelay', 'Bounce']);
  const bounce = shown.timeline[2];
  assert.deepEqual([bounce.mode, bounce.bounce.category], ['sandbox', 'expired']);
  assert.equal(ms(bounce.timestamp), ms(shown.expiresAt), 'the last attempt is at the end of the lifetime');
  const times = shown.attempts.map((attempt: JsonObject) => ms(attempt.time));
  assert.equal(times.length, ran + 1, 'the first one was made before');
  const minutes = [1, 5, 15, 30, 60, 120, 240];
  for (const [index, wanted] of minutes.entries()) {
    const waited = (times[index + 1] - times[index]) / 60_000;
    assert.ok(Math.abs(waited - wanted) <= wanted * 0.1 + 0.01, `wait ${index + 1} was ${waited} min`);
  }
  for (const [index, time] of times.slice(8, -1).entries()) {
    const waited = (time - times[index + 7]) / 3_600_000;
    assert.ok(waited >= 5.39 && waited <= 6.61, `${waited} h`);
  }
  assert.ok(ms(now) >= ms(bounce.timestamp));
  assert.equal((await advance(HOUR)).ran, 0, 'nothing is retried after that');
});

test('delayed@ is delivered at its next attempt, and the clock keeps its position', async () => {
  const id = await send({ to: 'delayed@example.com' });
  await waitUntil('the delay', async () => (await message(id)).status === 'delayed');
  const early = await advance(50);
  assert.equal(early.ran, 0);
  const late = await advance(20);
  assert.equal(late.ran, 1);
  assert.ok(ms(late.now) - ms(early.now) >= 20_000);
  const shown = await message(id);
  assert.deepEqual(types(shown), ['Send', 'DeliveryDelay', 'Delivery']);
  const [delay, delivery] = [shown.timeline[1], shown.timeline[2]];
  assert.equal(delivery.timestamp, delay.deliveryDelay.nextAttemptAt);
  const next = await send({});
  assert.ok(ms((await message(next)).createdAt) >= ms(late.now), 'what is accepted later carries the later time');
});

test('a scheduled message is sent at its time on the sandbox clock', async () => {
  const { now } = await advance(0);
  const sendAt = new Date(ms(now) + 24 * HOUR * 1000).toISOString();
  const id = await send({ sendAt, expiresAfterSeconds: 60 });
  assert.equal((await message(id)).status, 'scheduled');
  assert.equal((await advance(23 * HOUR)).ran, 0);
  assert.equal((await message(id)).status, 'scheduled');
  assert.equal((await advance(HOUR)).ran, 1);
  const shown = await message(id);
  assert.equal(shown.status, 'delivered');
  assert.equal(shown.timeline.at(-1).timestamp, sendAt);
  const tooFar = new Date(ms(now) + 56 * 24 * HOUR * 1000).toISOString();
  const mail = { from: 'a@b.example', to: 'c@example.com', subject: 's', text: 't' };
  assert.equal((await service.sandboxApi.post('/send', { ...mail, sendAt: tooFar })).status, 400);
  const moved = new Date(ms(now) + 50 * HOUR * 1000).toISOString();
  const other = await send({ sendAt: new Date(ms(now) + 40 * HOUR * 1000).toISOString() });
  assert.equal((await service.sandboxApi.patch(`/messages/${other}`, { sendAt: moved })).body.sendAt, moved);
  assert.equal((await advance(20 * HOUR)).ran, 0);
  await advance(10 * HOUR);
  assert.equal((await message(other)).timeline.at(-1).timestamp, moved);
});

test('webhooks follow on their own schedule, in order, signed with the real time', async () => {
  const made = await service.sandboxApi.post('/webhooks', { url: hook.url, events: ['DeliveryDelay', 'Delivery'] });
  assert.equal(made.status, 201, made.text);
  const { webhookId, secret } = made.body;
  const deliveries = async (): Promise<JsonObject[]> =>
    (await service.sandboxApi.get(`/webhooks/${webhookId}/deliveries`)).body as unknown as JsonObject[];
  let fails = 3;
  hook.answer(() => {
    fails -= 1;
    return { status: fails >= 0 ? 500 : 200 };
  });
  const id = await send({ to: 'delayed@example.com' });
  await waitUntil('the first attempt of the webhook', async () => (await deliveries())[0]?.attempts === 1);
  const [first] = await deliveries();
  assert.equal(first?.status, 'pending');
  const start = ms((await message(id)).timeline[1].timestamp);
  const waits = ms(first?.nextAttemptAt) - ms(first?.createdAt);
  assert.ok(waits >= 4_500 && waits <= 5_500);
  // 5 s later the second webhook attempt, after a minute the delivery with its webhook, after five minutes the third attempt.
  const { ran } = await advance(30);
  assert.equal(ran, 1);
  assert.equal(hook.requests.length, 2);
  hook.requests.length = 0;
  const rest = await advance(2 * HOUR);
  const told = hook.requests.map((request) => JSON.parse(request.body) as JsonObject);
  assert.deepEqual(
    told.map((event) => event.eventType),
    ['Delivery', 'Delivery', 'DeliveryDelay'],
    'the webhook delivery fails once and is retried before the delay',
  );
  assert.equal(rest.ran, 4, 'one attempt of the message and three of webhooks');
  assert.equal(ms(told[0]?.timestamp), ms((await message(id)).timeline[2].timestamp));
  assert.ok(ms(told[0]?.timestamp) - start >= 54_000);
  for (const request of hook.requests) {
    new Webhook(secret).verify(request.body, request.headers as Record<string, string>);
    assert.equal((JSON.parse(request.body) as JsonObject).mode, 'sandbox');
    assert.ok(Math.abs(Number(request.headers['webhook-timestamp']) * 1000 - Date.now()) < 60_000);
  }
  assert.ok((await deliveries()).every((one) => one.status === 'succeeded'));
  assert.equal((await service.sandboxApi.delete(`/webhooks/${webhookId}`)).status, 200);
});

test('five simulated days of failures disable a sandbox webhook', async () => {
  const gone = await webhookCatcher({ script: { status: 500 } });
  const made = await service.sandboxApi.post('/webhooks', { url: gone.url, events: ['Send'] });
  await send({});
  await waitUntil('the first failure', () => gone.requests.length === 1);
  const fourDays = await advance(4 * 24 * HOUR);
  assert.equal(fourDays.ran, 9, 'the rest of the ten attempts');
  await send({});
  await waitUntil('another failure', () => gone.requests.length === 11);
  await advance(2 * 24 * HOUR);
  const { body } = await service.sandboxApi.get(`/webhooks/${made.body.webhookId}`);
  assert.deepEqual([body.enabled, body.disabledReason], [false, 'every delivery failed for five days']);
  await gone.close();
});

test('the inbox ages with the clock, and other accounts do not', async () => {
  await service.sandboxApi.delete('/sandbox/inbox');
  const id = await send({ to: 'age@example.com' });
  await waitUntil('the delivery', async () => (await message(id)).status === 'delivered');
  await advance(3 * 24 * HOUR);
  const [item] = (await service.sandboxApi.get('/sandbox/inbox')).body as unknown as JsonObject[];
  assert.equal(item?.messageId, id);
  assert.ok(item?.age >= 3 * 24 * HOUR && item?.age < 3 * 24 * HOUR + 60, String(item?.age));
  await advance(5 * 24 * HOUR);
  assert.deepEqual((await service.sandboxApi.get('/sandbox/inbox')).body, []);
  assert.equal((await service.sandboxApi.get(`/sandbox/inbox/${id}`)).status, 404);
  assert.equal((await message(id)).status, 'delivered', 'the message itself stays');
  const other = await service.cli('account', 'create', '--name', 'Other');
  const mail = { from: 'a@b.example', to: 'c@example.com', subject: 's', text: 't' };
  const sent = await service.anonymous.post('/send', mail, {
    'x-api-key': String(other.sandboxApiKey),
    'x-id': String(other.accountId),
  });
  const shown = await service.anonymous.call({
    method: 'GET',
    path: `/messages/${sent.body.data.messageId}`,
    headers: { 'x-api-key': String(other.sandboxApiKey), 'x-id': String(other.accountId) },
  });
  assert.ok(Math.abs(ms(shown.body.createdAt) - Date.now()) < 60_000);
});

test('concurrent moves of one clock run one after another and add up', async () => {
  const { now } = await advance(0);
  await Promise.all([advance(100), advance(200), advance(300)]);
  const after = await advance(0);
  const moved = ms(after.now) - ms(now);
  assert.ok(moved >= 600_000 && moved < 630_000, String(moved));
  const crowd = await Promise.all(
    Array.from({ length: 60 }, () => service.sandboxApi.post('/sandbox/clock/advance', { seconds: 0 })),
  );
  const statuses = new Set(crowd.map((answer) => answer.status));
  assert.deepEqual(statuses, new Set([200, 409]), 'excess calls are rejected, and the first ones are not');
});

test('hundreds of messages over 30 days finish in bounded time, in order', async () => {
  const reply = { headers: { 'X-Sandbox-Outcome': '450 4.2.0 later' } };
  const many = Array.from({ length: 300 }, (_, index) => send({ to: `many${index}@example.com`, ...reply }));
  await Promise.all(many);
  const before = (await service.sandboxApi.get('/events?limit=1')).headers['x-next-cursor'] ?? '';
  const { ran } = await advance(30 * 24 * HOUR);
  assert.ok(ran >= 300 * 17, String(ran));
  let cursor = before;
  let last = 0;
  let bounces = 0;
  for (;;) {
    const page = await service.sandboxApi.get(`/events?order=asc&limit=100&cursor=${cursor}`);
    const events = page.body as unknown as JsonObject[];
    for (const event of events) {
      if (event.eventType === 'Send' || event.eventType === 'DeliveryDelay') continue;
      assert.ok(ms(event.timestamp) >= last, 'in order');
      last = ms(event.timestamp);
      bounces += 1;
    }
    if (!page.headers.link) break;
    cursor = page.headers['x-next-cursor'] ?? '';
  }
  assert.equal(bounces, 300);
});

test('a reset deletes sandbox mail and returns to real time', async () => {
  const { sandboxApi } = service;
  const endpoint = await sandboxApi.post('/webhooks', { url: hook.url, events: ['Delivery', 'Bounce'] });
  const delivered = await send({ to: 'reset@example.com' });
  const order = { from: 'shop@example.com', to: 'order@example.com', subject: 'Order', text: 'Thanks' };
  const keyed = async () =>
    (await sandboxApi.post('/send', order, { 'Idempotency-Key': 'order-99' })).body.data.messageId;
  const ordered = await keyed();
  assert.equal(await keyed(), ordered);
  const large = async (): Promise<string> => {
    const { id } = await uploadAll(sandboxApi, [{ bytes: Buffer.alloc(10_000, 1) }], 'large-99');
    const answer = await sendSubmission(sandboxApi, id, order, 'large-99');
    assert.equal(answer.status, 202, answer.text);
    return answer.body.data.messageId;
  };
  const withFile = await large();
  await advance(30 * 24 * HOUR);
  await send({ sendAt: new Date(Date.now() + 40 * 24 * HOUR * 1000).toISOString() });
  const many = Array.from({ length: 250 }, () => send({ to: ['x@example.com', 'y@example.com'] }));
  await Promise.all(many);
  const before = Date.now();
  const reset = await sandboxApi.call({ method: 'POST', path: '/sandbox/clock/reset', timeoutMs: 60_000 });
  assert.equal(reset.status, 200, reset.text);
  assert.ok(reset.body.removed >= 502, JSON.stringify(reset.body));
  assert.ok(Math.abs(ms(reset.body.now) - before) < 60_000, 'the real time');
  for (const path of ['/messages', '/events', '/sandbox/inbox', `/webhooks/${endpoint.body.webhookId}/deliveries`])
    assert.deepEqual((await sandboxApi.get(path)).body, [], path);
  assert.equal((await sandboxApi.get(`/messages/${delivered}`)).status, 404);
  const asked = hook.requests.length;

  const orderedAgain = await keyed();
  assert.notEqual(orderedAgain, ordered, 'the key is free again');
  assert.notEqual(await large(), withFile, 'also that of an upload');
  await waitUntil('it', async () => (await message(orderedAgain)).status === 'delivered');
  const again = await send({ to: 'after-reset@example.com' });
  await waitUntil('the next message', async () => (await message(again)).status === 'delivered');
  assert.ok(Math.abs(ms((await message(again)).createdAt) - Date.now()) < 60_000, 'dated by real time');
  const waited = await sandboxApi.get('/sandbox/inbox/wait?to=after-reset@example.com&timeoutSeconds=10');
  assert.equal(waited.body.messageId, again);
  await waitUntil('its webhook', () => hook.requests.length > asked);
  const { ran } = await advance(HOUR);
  assert.equal(ran, 0, 'nothing is left of the earlier messages');
  assert.equal((await service.api.post('/sandbox/clock/reset')).status, 403, 'live');
});

test('rejects an invalid number of seconds and a live key', async () => {
  for (const seconds of [-1, 1.5, 90 * 86_400 + 1, '5']) {
    const refused = await service.sandboxApi.post('/sandbox/clock/advance', { seconds });
    assert.equal(refused.status, 400);
    assert.equal(refused.body.error.details[0].field, 'seconds');
  }
  assert.equal((await service.api.post('/sandbox/clock/advance', { seconds: 1 })).status, 403);
});

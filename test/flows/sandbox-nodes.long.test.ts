/**
 * The sandbox on two nodes that share a database: a client that waits, follows, or moves the clock on one node sees what happens on the
 * other.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Api, JsonObject } from '../kit/api.ts';
import { apiClient } from '../kit/api.ts';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

let cluster: Cluster;
let hook: WebhookCatcher;
let front: Api;
let back: Api;

before(async () => {
  hook = await webhookCatcher();
  // The first node only serves API calls; the second one has all roles.
  const envOf = async (index: number): Promise<Record<string, string>> =>
    index === 0 ? { POSTRIDER_ROLES: 'api' } : {};
  cluster = await startCluster({ nodes: 2, envOf, env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
  const [one, two] = cluster.nodes;
  front = one!.sandboxApi;
  back = apiClient(() => two!.url, one!.sandbox);
});
after(async () => {
  back?.close();
  await cluster?.close();
  await hook?.close();
});

async function send(api: Api, extra: JsonObject): Promise<string> {
  const mail = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Your code', text: 'Your code is 482913' };
  const answer = await api.post('/send', { ...mail, ...extra });
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}
const message = async (id: string): Promise<JsonObject> => (await back.get(`/messages/${id}`)).body;

test('a message accepted by one node ends the wait on the other', async () => {
  const waiting = front.get('/sandbox/inbox/wait?to=new@example.com&timeoutSeconds=20');
  await waitUntil('the other node to answer', async () => (await front.get('/sandbox/inbox')).status === 200);
  const id = await send(back, { to: 'new@example.com' });
  const { status, body } = await waiting;
  assert.deepEqual([status, body.messageId, body.codes], [200, id, ['482913']]);
});

test('moving the clock on one node moves it on both, and runs due work', async () => {
  const made = await front.post('/webhooks', { url: hook.url, events: ['Delivery'] });
  assert.equal(made.status, 201, made.text);
  const id = await send(back, { to: 'delayed@example.com' });
  await waitUntil('the delay', async () => (await message(id)).status === 'delayed');
  const moved = await front.post('/sandbox/clock/advance', { seconds: 3_600 });
  assert.equal(moved.status, 200, moved.text);
  assert.equal(moved.body.ran, 2, 'the message and its webhook');
  assert.equal((await message(id)).status, 'delivered');
  assert.equal(hook.requests.length, 1);
  const next = await send(back, {});
  assert.ok(Date.parse((await message(next)).createdAt) >= Date.parse(moved.body.now));
  await front.delete(`/webhooks/${made.body.webhookId}`);
});

test('72 hours of retries on a shared database', async () => {
  const reply = { headers: { 'X-Sandbox-Outcome': '451 4.3.0 later' } };
  const ids = await Promise.all(Array.from({ length: 20 }, () => send(back, reply)));
  const moved = await front.call({
    method: 'POST',
    path: '/sandbox/clock/advance',
    body: { seconds: 73 * 3_600 },
    timeoutMs: 60_000,
  });
  assert.equal(moved.body.remainingSeconds, undefined, moved.text);
  for (const id of ids) {
    const shown = await message(id);
    assert.equal(shown.status, 'bounced');
    assert.deepEqual(
      shown.timeline.map((event: JsonObject) => event.eventType),
      ['Send', 'DeliveryDelay', 'Bounce'],
    );
  }
});

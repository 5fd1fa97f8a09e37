/** What a sign-up test does: it waits for a message, reads its code or link, and simulates actions of the recipient. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { runningMs } from '../kit/running-time.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

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
  const body = { from: 'any@unverified.example', subject: 'Your code', text: 'Your code is 482913.', ...extra };
  const answer = await service.sandboxApi.post('/send', body);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}

const settled = (id: string, status: string): Promise<JsonObject> =>
  waitUntil(`${id} to be ${status}`, async () => {
    const { body } = await service.sandboxApi.get(`/messages/${id}`);
    return body.status === status && body;
  });
const types = (shown: JsonObject): string[] => shown.timeline.map((event: JsonObject) => event.eventType);
const wait = (query: string) => service.sandboxApi.get(`/sandbox/inbox/wait?${query}`);

test('a wait returns the message when it arrives, with its codes and links', async () => {
  const waiting = wait('to=New@example.com&subject=CODE&tag=login&timeoutSeconds=20');
  await send({ to: 'other@example.com', tags: ['login'] });
  await send({ to: 'new@example.com', subject: 'Welcome', tags: ['login'] });
  await send({ to: 'new@example.com', tags: ['signup'] });
  const began = runningMs();
  const id = await send({
    to: 'new@example.com',
    tags: ['a', 'login'],
    html: '<p>Your code is 482913. <a href="https://shop.example/in?a=1&amp;b=2">Sign in</a></p>',
  });
  const { status, body } = await waiting;
  assert.equal(status, 200);
  assert.ok(runningMs() - began < 10_000);
  assert.deepEqual([body.messageId, body.to, body.codes], [id, 'new@example.com', ['482913']]);
  assert.deepEqual(body.links, ['https://shop.example/in?a=1&b=2']);
  const again = await wait('to=new@example.com&tag=login&subject=code&timeoutSeconds=0');
  assert.equal(again.body.messageId, id, 'an existing message is found');
  const { age: _, outcome: __, ...shown } = (await service.sandboxApi.get(`/sandbox/inbox/${id}`)).body;
  assert.deepEqual(Object.keys(body).sort(), [...Object.keys(shown), 'age', 'outcome'].sort());
});

test('a wait times out with 404, and invalid queries are rejected by name', async () => {
  const none = await wait('to=nobody@example.com&timeoutSeconds=1');
  assert.deepEqual([none.status, none.body.error.code], [404, 'NOT_FOUND']);
  for (const [query, field] of [
    ['timeoutSeconds=301', 'timeoutSeconds'],
    ['timeoutSeconds=x', 'timeoutSeconds'],
    ['limit=1', 'limit'],
  ] as const) {
    const refused = await wait(query);
    assert.deepEqual([refused.status, refused.body.error.details[0].field], [400, field]);
  }
  assert.equal((await service.api.get('/sandbox/inbox/wait')).status, 403);
});

test('a stop answers waits with 503, not 404', async () => {
  const stopped = await startService();
  try {
    const path = '/sandbox/inbox/wait?timeoutSeconds=60';
    const waiting = stopped.sandboxApi.call({ method: 'GET', path, timeoutMs: 60_000 });
    // Answered after the wait request, so that one is waiting by then.
    await stopped.sandboxApi.get('/sandbox/inbox');
    assert.equal((await stopped.kill('SIGTERM')).code, 0);
    const { status, headers, body } = await waiting;
    assert.deepEqual([status, headers['retry-after'], body.error.code], [503, '1', 'OVERLOADED']);
  } finally {
    await stopped.close();
  }
});

test('500 concurrent waits each return their own message if the limit allows it', async () => {
  await service.cli('account', 'set', service.live.accountId, '--limit', 'inboxWaits=500');
  const people = Array.from({ length: 500 }, (_, index) => `person${index}@example.com`);
  const waiting = people.map((to) => wait(`to=${to}&timeoutSeconds=60`));
  await Promise.all(people.map((to) => send({ to })));
  const answers = await Promise.all(waiting);
  assert.deepEqual(
    answers.map((answer) => answer.body.to),
    people,
  );
});

test('simulated outcomes create events and webhooks', async () => {
  const made = await service.sandboxApi.post('/webhooks', { url: hook.url, events: ['Bounce', 'Complaint'] });
  const play = (id: string, outcome: unknown) => service.sandboxApi.post(`/sandbox/inbox/${id}/outcome`, { outcome });
  const delivered = await send({ to: 'ann@example.com' });
  await settled(delivered, 'delivered');
  const complained = await play(delivered, 'COMPLAINED');
  assert.equal(complained.status, 200, complained.text);
  assert.deepEqual([complained.body.messageId, complained.body.outcome], [delivered, 'Complained']);
  assert.deepEqual(types(await settled(delivered, 'complained')), ['Send', 'Delivery', 'Complaint']);
  assert.equal((await play(delivered, 'bounced')).status, 409);

  const late = await send({ to: 'ann@example.com' });
  await settled(late, 'delivered');
  assert.equal((await play(late, 'Bounced')).body.outcome, 'Bounced');
  const bounce = (await settled(late, 'bounced')).timeline[2];
  assert.deepEqual([bounce.bounce.kind, bounce.bounce.smtpCode, bounce.bounce.suppressed], ['hard', 550, false]);
  assert.equal(bounce.bounce.late, true);
  for (const word of ['delivered', 'delayed', 'suppressed', 'bounced', 'complained']) {
    const refused = await play(late, word);
    assert.deepEqual([refused.status, refused.body.error.code], [409, 'CONFLICT'], word);
  }

  const waiting = await send({ to: 'delayed@example.com' });
  await settled(waiting, 'delayed');
  assert.equal((await play(waiting, 'delayed')).body.outcome, 'Delayed');
  assert.deepEqual(types(await settled(waiting, 'delayed')), ['Send', 'DeliveryDelay', 'DeliveryDelay']);
  assert.equal((await play(waiting, '552 5.2.2 mailbox full')).body.outcome, 'Bounced');
  const full = await settled(waiting, 'bounced');
  assert.equal(full.timeline.at(-1).bounce.category, 'mailbox-full');
  assert.equal(full.attempts.length, 3);

  const scheduled = await send({ to: 'ann@example.com', sendAt: new Date(Date.now() + 3_600_000).toISOString() });
  assert.equal((await play(scheduled, 'suppressed')).body.outcome, 'Suppressed');
  assert.deepEqual(types(await settled(scheduled, 'suppressed')), ['Send', 'Reject']);
  const both = await send({ to: 'ann@example.com', sendAt: new Date(Date.now() + 3_600_000).toISOString() });
  assert.equal((await play(both, 'complained')).body.outcome, 'Complained');
  assert.deepEqual(types(await settled(both, 'complained')), ['Send', 'Delivery', 'Complaint']);

  for (const wrong of ['gone', '', '999 x', 7]) {
    const refused = await play(both, wrong);
    assert.deepEqual([refused.status, refused.body.error.details[0].field], [400, 'outcome'], String(wrong));
  }
  assert.equal((await play('msg_none', 'bounced')).status, 404);
  assert.deepEqual((await service.sandboxApi.get('/suppressions')).body, [], 'simulated outcomes suppress no address');
  await waitUntil('the webhooks', () => hook.requests.length === 4);
  const told = hook.requests.map((request) => JSON.parse(request.body) as JsonObject);
  assert.deepEqual(told.map((event) => event.messageId).sort(), [delivered, late, waiting, both].sort());
  assert.ok(told.every((event) => event.mode === 'sandbox'));
  await service.sandboxApi.delete(`/webhooks/${made.body.webhookId}`);
});

test('a live key cannot simulate outcomes', async () => {
  assert.equal((await service.api.post('/sandbox/inbox/x/outcome', { outcome: 'bounced' })).status, 403);
});

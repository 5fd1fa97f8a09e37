/** Endpoints that get several events per request: what arrives at the receiver, and what is retried. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { DIALECTS, type Dialect } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { CaughtRequest } from '../../test/kit/webhook-catcher.ts';
import { type WorldOptions, webhookRig } from '../../test/kit/webhook-rig.ts';
import { changedBy, systemOrigin } from '../audit/audit.ts';
import { batchLimit, batchOf, failedEventIds } from './batch.ts';
import { LANE_LIMITS } from './lanes.ts';
import { replaceEndpointOperation } from './store.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface SentEvent {
  eventId: string;
  messageId: string;
}

const eventsOf = ({ body }: CaughtRequest): SentEvent[] => JSON.parse(body) as SentEvent[];

async function batchWorld(dialect: Dialect, maxBatch: number, options: WorldOptions = {}) {
  const w = await webhookRig((close) => closers.push(close), { dialect, random: () => 0.5, ...options });
  const hook = await w.catcher();
  const { id, secret } = await w.endpoint(hook.url, { maxBatch });
  const events = async (count: number): Promise<string[]> => {
    const messages: string[] = [];
    for (let i = 0; i < count; i += 1) messages.push(await w.event(`user${i}@example.com`));
    return messages;
  };
  const messagesAtHook = () => hook.requests.flatMap((request) => eventsOf(request).map((event) => event.messageId));
  return { ...w, hook, id, secret, events, messagesAtHook };
}

for (const dialect of DIALECTS) {
  describe(`on ${dialect}`, () => {
    test('events that arrive while all requests are in flight are sent together, signed and once', async () => {
      const w = await batchWorld(dialect, 20);
      const gate = Promise.withResolvers<void>();
      w.hook.answer({ held: gate.promise });
      const first: string[] = [];
      for (let count = 1; count <= LANE_LIMITS.perBatchLane; count += 1) {
        first.push(...(await w.events(1)));
        w.worker.nudge();
        await waitUntil(`${count} requests in flight`, () => w.hook.requests.length === count);
      }
      const later = await w.events(45);
      w.worker.nudge();
      await waitUntil('the events in memory', () => w.worker.leases() === first.length + later.length);
      const before = w.hook.requests.length;
      assert.equal(before, LANE_LIMITS.perBatchLane);
      gate.resolve();
      w.hook.answer({ status: 204 });
      await waitUntil('the work to be settled', async () => (await w.depth()) === 0);
      assert.deepEqual(w.messagesAtHook().toSorted(), [...first, ...later].toSorted());
      const sizes = w.hook.requests.slice(before).map((request) => eventsOf(request).length);
      assert.equal(Math.max(...sizes), 20);
      for (const { headers, body } of w.hook.requests) {
        assert.match(String(headers['webhook-id']), /^batch_[0-9a-f]{32}$/);
        assert.ok(Array.isArray(new Webhook(w.secret).verify(body, headers as Record<string, string>)));
      }
      const deliveries = await w.deliveries(w.id);
      assert.equal(deliveries.length, first.length + later.length);
      assert.ok(deliveries.every((one) => one.status === 'succeeded' && one.attempts === 1));
    });
  });
}

test('only the events that a 2xx response lists as failed are retried', async () => {
  const clock = fakeClock();
  const w = await batchWorld('sqlite', 10, { clock });
  let rejected = '';
  w.hook.answer((request) => {
    const [event] = eventsOf(request);
    rejected ||= event!.eventId;
    return eventsOf(request).some(({ eventId }) => eventId === rejected)
      ? { status: 200, body: JSON.stringify({ failed: [rejected] }) }
      : { status: 200 };
  });
  await w.events(6);
  w.worker.nudge();
  const pending = await waitUntil('one pending delivery', async () => {
    const all = await w.deliveries(w.id);
    const open = all.filter((one) => one.status === 'pending');
    return all.length === 6 && open.length === 1 ? open[0] : undefined;
  });
  assert.equal(pending.event_id, rejected);
  assert.equal(pending.next_attempt_at, clock.now() + 5_000);
  assert.match(pending.error ?? '', /listed this event in `failed`/);
  w.hook.answer({ status: 204 });
  clock.advance(5_000);
  w.worker.nudge();
  await waitUntil('the work to be settled', async () => (await w.depth()) === 0);
  assert.deepEqual(
    eventsOf(w.hook.requests.at(-1)!).map((event) => event.eventId),
    [rejected],
  );
  assert.equal(w.messagesAtHook().length, 7);
});

test('an event that makes its requests fail is soon sent without others', async () => {
  const clock = fakeClock();
  const limits = { ...LANE_LIMITS, perBatchLane: 1 };
  const w = await batchWorld('sqlite', 20, { clock, limits });
  const gate = Promise.withResolvers<void>();
  w.hook.answer({ held: gate.promise });
  const [opening] = await w.events(1);
  w.worker.nudge();
  await waitUntil('the first request', () => w.hook.requests.length === 1);
  const messages = await w.events(20);
  w.worker.nudge();
  await waitUntil('the events in memory', () => w.worker.leases() === 21);
  const poison = messages[3]!;
  w.hook.answer((request) => (request.body.includes(poison) ? { status: 500 } : { status: 200 }));
  gate.resolve();
  for (const [attempts, waitMs] of [5_000, 300_000].entries()) {
    await waitUntil(`attempt ${attempts + 1}`, async () =>
      (await w.deliveries(w.id)).some((one) => one.status === 'pending' && one.attempts === attempts + 1),
    );
    await waitUntil('no request in flight', async () => w.worker.leases() === 0);
    clock.advance(waitMs);
    w.worker.nudge();
  }
  await waitUntil('the last attempt', async () =>
    (await w.deliveries(w.id)).some((one) => one.status === 'pending' && one.attempts === 3),
  );
  const open = (await w.deliveries(w.id)).filter((one) => one.status !== 'succeeded');
  assert.equal(open.length, 1);
  const sizes = w.hook.requests.filter(({ body }) => body.includes(poison)).map((request) => eventsOf(request).length);
  assert.deepEqual(sizes, [20, 2, 1]);
  assert.ok(w.messagesAtHook().includes(opening!));
});

test('a batch is limited by the event with the most failed attempts', () => {
  assert.deepEqual(
    [0, 1, 2, 6, 7, 9].map((attempts) => batchLimit(100, attempts)),
    [100, 10, 1, 1, 1, 1],
  );
  assert.equal(batchLimit(1, 0), 1);
});

test('the id of a request depends on the ids of its events alone', () => {
  const events = [
    { id: 'evt_1', body: '{"a":1}' },
    { id: 'evt_2', body: '{"b":2}' },
  ];
  const { id, body } = batchOf(events);
  assert.equal(body, '[{"a":1},{"b":2}]');
  assert.equal(batchOf(events).id, id);
  assert.notEqual(batchOf(events.toReversed()).id, id);
  assert.notEqual(batchOf(events.slice(1)).id, id);
});

test('a response without the documented form lists no event as failed', () => {
  const listed = (body: string | undefined, status = 200): string[] => {
    const full = body === undefined ? {} : { body: Buffer.from(body) };
    const ids = failedEventIds({ ok: true, status, headers: {}, bodyStart: '', ...full, latencyMs: 1 });
    return ids === 'unknown' ? ['unknown'] : [...ids];
  };
  assert.deepEqual(listed('{"failed":["evt_1","evt_2"]}'), ['evt_1', 'evt_2']);
  assert.deepEqual(listed('{"failed":["evt_1",7,null]}'), ['evt_1']);
  assert.deepEqual(listed(undefined), ['unknown']);
  assert.deepEqual(listed(undefined, 500), []);
  for (const body of ['', 'ok', 'null', '[]', '{"failed":"evt_1"}', '{"failed":{}}', '\ufffd'])
    assert.deepEqual(listed(body), [], body);
  assert.deepEqual(listed('{"failed":["evt_1"]}', 500), []);
  assert.deepEqual([...failedEventIds({ ok: false, kind: 'timeout', message: '', latencyMs: 1 })], []);
});

for (const [before, after] of [
  [1, 10],
  [10, 1],
  [10, 3],
] as const) {
  test(`no event is lost when maxBatch changes from ${before} to ${after} while events wait`, async () => {
    const limits = { ...LANE_LIMITS, perLane: 1, perBatchLane: 1 };
    const w = await batchWorld('sqlite', before, { limits });
    const gate = Promise.withResolvers<void>();
    w.hook.answer({ held: gate.promise });
    await w.events(1);
    w.worker.nudge();
    await waitUntil('the first request', () => w.hook.requests.length === 1);
    await w.events(12);
    w.worker.nudge();
    await waitUntil('the events in memory', () => w.worker.leases() === 13);
    const nowMs = Date.now();
    await changedBy(w.db.database, systemOrigin(nowMs)).execute(replaceEndpointOperation, {
      accountId: w.accountId,
      mode: 'live',
      id: w.id,
      url: w.hook.url,
      events: '["Send"]',
      enabled: null,
      secretSealed: null,
      nowMs,
      maxBatch: after,
    });
    await w.events(5);
    w.worker.nudge();
    await waitUntil('the events in memory', () => w.worker.leases() === 18);
    gate.resolve();
    w.hook.answer({ status: 204 });
    await waitUntil('the work to be settled', async () => (await w.depth()) === 0);
    const arrived = w.hook.requests.flatMap(({ body }) => [JSON.parse(body) as SentEvent | SentEvent[]].flat());
    assert.equal(arrived.length, 18);
    assert.equal(new Set(arrived.map(({ eventId }) => eventId)).size, 18);
    for (const { body } of w.hook.requests)
      assert.ok([JSON.parse(body) as unknown].flat().length <= Math.max(before, after));
  });
}

test('a 2xx response whose body is cut off accepts no event of a batch', async () => {
  const clock = fakeClock();
  const w = await batchWorld('sqlite', 10, { clock });
  w.hook.answer({ raw: 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"failed":["evt_' });
  await w.events(1);
  w.worker.nudge();
  const pending = await waitUntil('the attempt', async () =>
    (await w.deliveries(w.id)).find((one) => one.attempts === 1),
  );
  assert.equal(pending.status, 'pending');
  assert.match(pending.error ?? '', /cut off, so it may have listed this event as failed/);
});

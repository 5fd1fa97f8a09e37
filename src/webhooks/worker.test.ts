/** The worker with real receivers on loopback: signatures, the schedule, isolation of dead endpoints, stop. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { runningMs } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { secretKey, type WorldOptions, webhookRig } from '../../test/kit/webhook-rig.ts';
import { systemClock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { seal } from '../base/seal.ts';
import { sealContext } from './endpoints.ts';
import { LANE_LIMITS } from './lanes.ts';
import { retryDeliveryOperation } from './log-store.ts';
import { countReplay, createReplay } from './replay.ts';
import { newSecret } from './sign.ts';
import { createEndpointOperation, findEndpointOperation, rotateSecretOperation } from './store.ts';

const DAY_MS = 86_400_000;
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});
const world = (options?: WorldOptions) => webhookRig((close) => closers.push(close), options);

test('an event arrives once with a valid signature, and its delivery is recorded', async () => {
  const w = await world();
  const hook = await w.catcher({ status: 201, body: 'taken' });
  const { id, secret } = await w.endpoint(hook.url);
  const messageId = await w.event();
  w.worker.nudge();
  await waitUntil('the work to be settled', async () => hook.requests.length > 0 && (await w.depth()) === 0);
  assert.equal(hook.requests.length, 1);
  const caught = hook.requests[0]!;
  const headers = caught.headers as Record<string, string>;
  const body = new Webhook(secret).verify(caught.body, headers) as Record<string, unknown>;
  assert.equal(body.messageId, messageId);
  assert.equal(body.eventId, headers['webhook-id']);
  assert.equal(headers['content-type'], 'application/json');
  // Controls: verification rejects a changed body, another secret, and a changed timestamp.
  assert.throws(() => new Webhook(secret).verify(`${caught.body} `, headers));
  assert.throws(() => new Webhook(newSecret()).verify(caught.body, headers));
  const later = { ...headers, 'webhook-timestamp': String(Number(headers['webhook-timestamp']) + 1) };
  assert.throws(() => new Webhook(secret).verify(caught.body, later));
  const [delivery, ...others] = await w.deliveries(id);
  assert.equal(others.length, 0);
  assert.match(delivery!.id, /^del_[0-9A-Za-z]{21}$/);
  const { status, attempts, response_status, response_start, error } = delivery!;
  assert.deepEqual(
    { status, attempts, response_status, response_start, error },
    { status: 'succeeded', attempts: 1, response_status: 201, response_start: 'taken', error: null },
  );
});

test('during a rotation both secrets sign, and after 24 h only the new one', async () => {
  const clock = fakeClock();
  const w = await world({ clock });
  const hook = await w.catcher();
  const { id, secret: old } = await w.endpoint(hook.url);
  const fresh = newSecret();
  await w.db.database.execute(rotateSecretOperation, {
    id,
    accountId: w.accountId,
    mode: 'live',
    secretSealed: seal(secretKey, fresh, sealContext(id)),
    nowMs: clock.now(),
  });
  await w.event();
  const first = await waitUntil('the event', () => hook.requests[0]);
  for (const secret of [old, fresh]) new Webhook(secret).verify(first.body, first.headers as Record<string, string>);
  clock.advance(DAY_MS + 1);
  await w.event();
  const second = await waitUntil('the event a day later', () => hook.requests[1]);
  new Webhook(fresh).verify(second.body, second.headers as Record<string, string>);
  assert.throws(() => new Webhook(old).verify(second.body, second.headers as Record<string, string>));
});

test('retries follow the published schedule with the same ID and bytes until the delivery fails', async () => {
  const clock = fakeClock();
  const w = await world({ clock, random: () => 0.5 });
  const hook = await w.catcher({ status: 500, body: 'broken' });
  const { id } = await w.endpoint(hook.url);
  await w.event();
  const MINUTE = 60_000;
  const waits = [
    5_000,
    5 * MINUTE,
    30 * MINUTE,
    120 * MINUTE,
    300 * MINUTE,
    600 * MINUTE,
    840 * MINUTE,
    1200 * MINUTE,
    DAY_MS,
  ];
  for (const [index, waitMs] of waits.entries()) {
    const pending = await waitUntil(`attempt ${index + 1}`, async () => {
      const [one] = await w.deliveries(id);
      return one?.attempts === index + 1 ? one : undefined;
    });
    assert.equal(pending.status, 'pending');
    assert.equal(pending.next_attempt_at, clock.now() + waitMs);
    // Nothing is due a moment earlier.
    clock.advance(waitMs - 1);
    w.worker.nudge();
    assert.equal((await w.deliveries(id))[0]!.attempts, index + 1);
    clock.advance(1);
  }
  const last = await waitUntil('the last attempt', async () => {
    const [one] = await w.deliveries(id);
    return one?.status === 'failed' ? one : undefined;
  });
  assert.equal(last.attempts, 10);
  assert.equal(last.next_attempt_at, null);
  assert.match(last.error ?? '', /returned HTTP status 500/);
  assert.equal(await w.depth(), 0);
  assert.equal(hook.requests.length, 10);
  assert.equal(new Set(hook.requests.map((one) => one.headers['webhook-id'])).size, 1);
  assert.equal(new Set(hook.requests.map((one) => one.body)).size, 1);

  hook.answer({ status: 204 });
  const key = { id, accountId: w.accountId, mode: 'live' as const };
  await w.db.database.execute(retryDeliveryOperation, { ...key, deliveryId: last.id, nowMs: clock.now() });
  await waitUntil('the retry by hand', async () => (await w.deliveries(id))[0]!.status === 'succeeded');
  assert.equal((await w.deliveries(id))[0]!.attempts, 11);
});

test('Retry-After delays the next attempt, a redirect fails, and 410 disables the endpoint', async () => {
  const clock = fakeClock();
  const w = await world({ clock, random: () => 0.5 });
  const hook = await w.catcher({ status: 503, headers: { 'retry-after': '120' } });
  const { id } = await w.endpoint(hook.url);
  await w.event();
  const delivered = (attempts: number) =>
    waitUntil(`attempt ${attempts}`, async () => (await w.deliveries(id)).find((one) => one.attempts === attempts));
  assert.equal((await delivered(1)).next_attempt_at, clock.now() + 120_000);
  const elsewhere = await w.catcher();
  hook.answer({ status: 302, headers: { location: elsewhere.url } });
  clock.advance(120_000);
  assert.match((await delivered(2)).error ?? '', /302; Postrider does not follow redirects/);
  assert.equal(elsewhere.requests.length, 0);
  hook.answer({ status: 410 });
  await w.event();
  const key = { id, accountId: w.accountId, mode: 'live' as const };
  const disabled = await waitUntil('the endpoint to be disabled', async () => {
    const row = await w.db.database.execute(findEndpointOperation, key);
    return row?.enabled === 0 ? row : undefined;
  });
  assert.match(disabled.disabled_reason ?? '', /410/);
  clock.advance(DAY_MS);
  await waitUntil('the rest to be ended', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 3);
  assert.ok((await w.deliveries(id)).every((one) => one.status === 'failed'));
});

test('five days of failures disable the endpoint, and a success restarts the period', async () => {
  const clock = fakeClock();
  const w = await world({ clock });
  const hook = await w.catcher({ reset: true });
  const { id } = await w.endpoint(hook.url);
  const key = { id, accountId: w.accountId, mode: 'live' as const };
  const enabled = async () => (await w.db.database.execute(findEndpointOperation, key))?.enabled;
  const failOnce = async (): Promise<void> => {
    const before = (await w.deliveries(id)).length;
    await w.event();
    await waitUntil('one more record', async () => (await w.deliveries(id)).length === before + 1);
  };
  await failOnce();
  clock.advance(4 * DAY_MS);
  hook.answer({ status: 200 });
  await failOnce();
  await waitUntil('all to have succeeded', async () => (await w.depth()) === 0);
  hook.answer({ reset: true });
  await failOnce();
  clock.advance(4 * DAY_MS);
  await failOnce();
  assert.equal(await enabled(), 1);
  clock.advance(DAY_MS + 1);
  await w.event();
  await waitUntil('the endpoint to be disabled', async () => (await enabled()) === 0);
});

test('an unreachable endpoint with a long backlog delays no other, and its rows stay in storage', async () => {
  const w = await world({ limits: { ...LANE_LIMITS, window: 100, inFlight: 60, slowInFlight: 20 } });
  const dead = await w.catcher({ silent: true });
  const live = await w.catcher();
  await w.endpoint(dead.url);
  await Promise.all(Array.from({ length: 600 }, () => w.event()));
  await waitUntil('the dead endpoint to hang', () => dead.requests.length >= 50);
  await w.endpoint(live.url);
  const began = runningMs();
  await Promise.all(Array.from({ length: 200 }, () => w.event()));
  w.worker.nudge();
  await waitUntil('the healthy endpoint to have all', () => live.requests.length === 200);
  const tookMs = runningMs() - began;
  assert.ok(tookMs < 3_000, `took ${Math.round(tookMs)} ms`);
  assert.ok(dead.requests.length <= 60, `${dead.requests.length} requests hang`);
  await waitUntil('what waits for the dead endpoint to be all that is left', async () => (await w.depth()) === 800);
  // Cuts the hanging requests, so that the worker can stop.
  await dead.close();
});

test('each of 1,200 simultaneous events arrives exactly once', async () => {
  const w = await world();
  const hook = await w.catcher();
  await w.endpoint(hook.url);
  const ids = await Promise.all(Array.from({ length: 1_200 }, () => w.event()));
  w.worker.nudge();
  await waitUntil('all to be settled', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 1_200);
  const seen = new Set(hook.requests.map((one) => (JSON.parse(one.body) as { messageId: string }).messageId));
  assert.deepEqual(seen, new Set(ids));
});

test('stopping loses and repeats nothing, and a replay sends the selected events again', async () => {
  const w = await world({ limits: { ...LANE_LIMITS, perLane: 4 } });
  const hook = await w.catcher({ delayMs: 5 });
  const { id } = await w.endpoint(hook.url);
  await Promise.all(Array.from({ length: 300 }, () => w.event()));
  await waitUntil('some to have arrived', () => hook.requests.length > 20);
  await w.worker.stop();
  const before = hook.requests.length;
  assert.ok(before < 300);
  assert.equal(await w.depth(), 300 - before);
  hook.answer();
  const next = w.start();
  await waitUntil('the rest', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 300);
  assert.equal(new Set(hook.requests.map((one) => one.headers['webhook-id'])).size, 300);
  const replay = createReplay({ database: w.db.database, clock: systemClock });
  const answer = await replay({
    accountId: w.accountId,
    mode: 'live',
    webhookId: id,
    eventTypes: ['Send'],
    sinceMs: 0,
    untilMs: Date.now(),
  });
  assert.deepEqual(answer, { ok: true, value: 300 });
  next.nudge();
  await waitUntil('the replay', async () => hook.requests.length === 600 && (await w.depth()) === 0);
  assert.ok((await w.deliveries(id)).every((one) => one.attempts === 2));
});

test('a replay after an outage sends each failed event once, and its progress is what is left', async () => {
  const w = await world();
  const hook = await w.catcher({ status: 503, headers: { 'retry-after': '7200' } });
  const { id } = await w.endpoint(hook.url);
  await Promise.all(Array.from({ length: 40 }, () => w.event()));
  await waitUntil('all to have failed', async () => {
    const list = await w.deliveries(id);
    return list.length === 40 && list.every((one) => one.status === 'pending' && one.attempts === 1);
  });
  const held = Promise.withResolvers<void>();
  hook.answer({ held: held.promise });
  const deps = { database: w.db.database, clock: systemClock };
  const period = { sinceMs: 0, untilMs: Date.now() };
  const replayed = { accountId: w.accountId, mode: 'live' as const, webhookId: id, eventTypes: ['Send' as const] };
  assert.deepEqual(await countReplay(deps, { ...replayed, ...period }), { ok: true, value: 40 });
  assert.deepEqual(await createReplay(deps)({ ...replayed, ...period }), { ok: true, value: 40 });
  assert.equal(await w.depth(), 40, 'no event is queued twice');
  assert.deepEqual(await countReplay(deps, { ...replayed, ...period }), { ok: true, value: 0 }, 'they are queued');
  await waitUntil('requests', () => hook.requests.length > 40);
  assert.deepEqual(await countReplay(deps, { ...replayed, ...period }), { ok: true, value: 0 }, 'they are being sent');
  held.resolve();
  await waitUntil('all to be settled', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 80);
  assert.ok((await w.deliveries(id)).every((one) => one.status === 'succeeded' && one.attempts === 2));
  assert.deepEqual(await countReplay(deps, { ...replayed, ...period }), { ok: true, value: 40 });
});

test('an address that became private is rejected at connect time', async () => {
  const w = await world();
  const { id } = await w.endpoint('http://10.0.0.1/hook');
  await w.event();
  const [delivery] = await waitUntil('the refusal', async () => {
    const list = await w.deliveries(id);
    return list.length > 0 ? list : undefined;
  });
  assert.match(delivery!.error ?? '', /not a public address/);
});

test('during a storage outage results are kept, nothing is repeated, and nothing starts', async () => {
  let failing = true;
  let refused = 0;
  const w = await world({
    wrap: (database) => ({
      ...database,
      execute: (op, args) => {
        if (op.name !== 'webhooks.settle' || !failing) return database.execute(op, args);
        refused += 1;
        return Promise.reject(new Unavailable('the disk is full'));
      },
    }),
  });
  const hook = await w.catcher();
  await w.endpoint(hook.url);
  await w.event();
  await waitUntil('the first refusal', () => refused > 0);
  await w.event();
  w.worker.nudge();
  await waitUntil('another refusal', () => refused > 1);
  assert.equal(hook.requests.length, 1);
  assert.equal(await w.depth(), 2);
  failing = false;
  await waitUntil('both to be settled', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 2);
});

test('an endpoint whose secret cannot be decrypted does not affect others', async () => {
  const w = await world();
  const hook = await w.catcher();
  const bad = newId('whk');
  await w.db.database.execute(createEndpointOperation, {
    id: bad,
    accountId: w.accountId,
    mode: 'live',
    url: hook.url,
    description: null,
    enabled: true,
    events: '["Send"]',
    secretSealed: seal(randomBytes(32), newSecret(), sealContext(bad)),
    nowMs: Date.now(),
  });
  const { id } = await w.endpoint(hook.url);
  await w.event();
  await waitUntil('both to be settled', async () => (await w.depth()) === 0);
  assert.equal((await w.deliveries(id))[0]!.status, 'succeeded');
  const [failed] = await w.deliveries(bad);
  assert.deepEqual([failed!.status, failed!.attempts], ['failed', 0]);
  assert.match(failed!.error ?? '', /secret/);
});

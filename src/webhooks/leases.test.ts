/** Held rows are not claimed elsewhere, however the clock is set; schedules follow a clock that was set back; crashes. */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { type WebhookRig, type WorldOptions, webhookRig } from '../../test/kit/webhook-rig.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { LEASE_MS } from '../work/work.ts';
import { LANE_LIMITS } from './lanes.ts';

const DAY_MS = 86_400_000;
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Row {
  due: number;
  leased: number;
  fence: number;
  attempts: number;
  crashes: number;
}

interface Watched extends WebhookRig {
  clock: FakeClock;
  rows(): Row[];
  tamper(sql: string): void;
}

async function world(options: WorldOptions = {}): Promise<Watched> {
  const clock = fakeClock();
  const made = await webhookRig((close) => closers.push(close), { clock, random: () => 0.5, ...options });
  const beside = new DatabaseSync(dataDirectory(made.db.folder).databaseFile);
  beside.exec('PRAGMA busy_timeout = 5000');
  closers.push(async () => beside.close());
  return {
    ...made,
    clock,
    rows: () => beside.prepare("SELECT * FROM work WHERE kind = 'webhook' ORDER BY seq").all() as unknown as Row[],
    tamper: (sql) => beside.exec(sql),
  };
}

test('a clock jump of three days does not repeat a delivery in flight', async () => {
  const w = await world();
  const answer = Promise.withResolvers<void>();
  const hook = await w.catcher({ held: answer.promise });
  const { id } = await w.endpoint(hook.url);
  await w.event();
  await waitUntil('the request', () => hook.requests.length === 1);
  w.clock.advance(3 * DAY_MS);
  for (let i = 0; i < 20; i += 1) {
    w.worker.nudge();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await w.event();
  await waitUntil('the other request', () => hook.requests.length === 2);
  answer.resolve();
  await waitUntil('both to be settled', async () => hook.requests.length === 2 && (await w.depth()) === 0);
  assert.deepEqual(
    (await w.deliveries(id)).map((one) => [one.status, one.attempts]),
    [
      ['succeeded', 1],
      ['succeeded', 1],
    ],
  );
  assert.equal(new Set(hook.requests.map((one) => one.headers['webhook-id'])).size, 2);
});

test('a row claimed again while its request is in flight is the same delivery', async () => {
  const w = await world();
  const answer = Promise.withResolvers<void>();
  const hook = await w.catcher({ held: answer.promise });
  const { id } = await w.endpoint(hook.url);
  await w.event();
  await waitUntil('the request', () => hook.requests.length === 1);
  w.tamper('UPDATE work SET due = 0, leased = 0');
  w.worker.nudge();
  await waitUntil('the row to be claimed again', () => w.rows()[0]?.fence === 2);
  answer.resolve();
  await waitUntil('the end', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 1);
  assert.equal((await w.deliveries(id))[0]!.status, 'succeeded');
});

test('deliveries of a paused process are sent only once, by the process that took over', async () => {
  const w = await world({ limits: { ...LANE_LIMITS, perLane: 1 } });
  const hook = await w.catcher();
  hook.answer(() => {
    if (hook.requests.length > 1) return {};
    // Between this response and the next request the process has no time to notice what it has lost.
    w.clock.advance(LEASE_MS + 1);
    w.tamper(
      `UPDATE work SET fence = fence + 1, due = ${w.clock.now() + LEASE_MS} WHERE seq = (SELECT max(seq) FROM work)`,
    );
    return {};
  });
  await w.endpoint(hook.url);
  await w.worker.stop();
  for (let i = 0; i < 2; i += 1) await w.event();
  // Both in one claim.
  w.start();
  await waitUntil('the first to be settled', () => w.rows().length === 1);
  assert.equal(hook.requests.length, 1);
  // The other process died too.
  w.clock.advance(LEASE_MS + 1);
  await waitUntil('the end', async () => hook.requests.length === 2 && (await w.depth()) === 0);
});

test('after the clock goes back a day, deferred deliveries keep their interval', async () => {
  const w = await world();
  const hook = await w.catcher({ status: 500 });
  await w.endpoint(hook.url);
  await w.event();
  await waitUntil('the first failure', () => w.rows()[0]?.attempts === 1);
  w.tamper('UPDATE work SET attempts = 2');
  w.clock.advance(-DAY_MS);
  await waitUntil('the schedule to be mended', () => (w.rows()[0]?.due ?? 0) < w.clock.now() + 6 * 60_000);
  // An earlier event without an attempt.
  w.tamper(`UPDATE work SET attempts = 0, due = ${w.clock.now() + DAY_MS / 2}`);
  w.clock.advance(-10_000);
  await waitUntil('the request', () => hook.requests.length === 2);
});

test('a delivery after a crash is marked, and fails permanently at the third crash', async () => {
  const w = await world();
  const answer = Promise.withResolvers<void>();
  const hook = await w.catcher({ held: answer.promise });
  const { id } = await w.endpoint(hook.url);
  await w.worker.stop();
  for (let i = 0; i < 3; i += 1) await w.event();
  w.tamper(
    `UPDATE work SET crashes = 1 + (SELECT count(*) FROM work w WHERE w.kind = 'webhook' AND w.seq < work.seq) WHERE kind = 'webhook'`,
  );
  assert.deepEqual(
    w.rows().map((row) => row.crashes),
    [1, 2, 3],
  );
  w.start();
  await waitUntil('a mark', () => w.rows()[0]?.leased === 2);
  answer.resolve();
  await waitUntil('the end', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 2);
  assert.deepEqual((await w.deliveries(id)).map((one) => one.status).sort(), ['failed', 'succeeded', 'succeeded']);
});

test('deliveries waiting in a process that dies are not counted as crashed', async () => {
  const w = await world();
  const hook = await w.catcher();
  await w.endpoint(hook.url);
  await w.worker.stop();
  await w.event();
  // Five processes held it and died.
  w.tamper("UPDATE work SET leased = 1, crashes = 2, due = 0, fence = 5 WHERE kind = 'webhook'");
  w.start();
  await waitUntil('the delivery', async () => hook.requests.length === 1 && (await w.depth()) === 0);
});

/** Clock advances that do not complete: out of time, failing halfway, or taken over from a dead process. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { silentLog } from '../base/log.ts';
import { createSandboxDeliveries } from '../delivery/delivery.ts';
import { findMessageOperation } from '../messages/api-store.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { recoverOperation } from '../work/work.ts';
import { type AdvanceDeps, createAdvance, type SandboxKind } from './advance.ts';
import { createSandboxClock } from './clock.ts';
import { beginMoveOperation } from './clock-store.ts';

const HOUR = 3_600_000;
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const never = (): never => assert.fail('webhooks are not used here');
const noWebhooks: SandboxKind = {
  kind: 'webhook',
  shortestWaitsMs: [],
  most: 1,
  claim: never,
  deadLetter: never,
  withoutAttempt: never,
  attempt: never,
  record: never,
};

async function open() {
  const temp = await tempDatabase();
  closers.push(() => temp.close());
  const { database } = temp;
  const clock = fakeClock(Date.now());
  const startMs = clock.now();
  const deliveries = createSandboxDeliveries({
    database,
    clock,
    log: silentLog,
    blobs: openDiskBlobs(path.join(temp.folder, 'blobs')),
  });
  /** Messages to be sent this many hours from now. */
  const scheduled = async (...hours: number[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const hour of hours) {
      const mail = { accountId: 'acc_1', mode: 'sandbox', nowMs: startMs, sendAtMs: startMs + hour * HOUR } as const;
      ids.push((await seedMail(database, mail)).recipients[0]!.messageId);
    }
    return ids;
  };
  const advance = (byMs: number, deps: Partial<AdvanceDeps> = {}) =>
    createAdvance({ database, clock, kinds: [deliveries, noWebhooks], nudge: () => undefined, ...deps })({
      accountId: 'acc_1',
      byMs,
      signal: new AbortController().signal,
    });
  const timelineOf = async (messageId: string) => {
    const found = await database.execute(findMessageOperation, { accountId: 'acc_1', mode: 'sandbox', messageId });
    return found!.timeline.map((event) => [event.type, event.at - startMs]);
  };
  const now = async (): Promise<number> => (await createSandboxClock({ database, clock }).now('acc_1')) - startMs;
  return { database, clock, startMs, deliveries, scheduled, advance, timelineOf, now };
}

test('an advance that runs out of time keeps its progress and can be continued', async () => {
  const { scheduled, advance, timelineOf, now, startMs } = await open();
  const ids = await scheduled(1, 2, 3, 200);
  // One step runs everything that can run together, and here each message can return before the next one.
  let leftMs = 100 * HOUR;
  let calls = 0;
  let ran = 0;
  while (leftMs > 0) {
    const moved = await advance(leftMs, { budgetMs: 0 });
    assert.ok(moved.ok);
    assert.equal(moved.value.nowMs - startMs, await now());
    leftMs = moved.value.leftMs;
    ran += moved.value.ran;
    calls += 1;
    assert.ok(calls < 10);
  }
  assert.ok(calls > 2, `${calls} calls`);
  assert.equal(ran, 3);
  assert.equal(await now(), 100 * HOUR);
  for (const [index, id] of ids.slice(0, 3).entries()) {
    assert.deepEqual(await timelineOf(id), [
      ['Send', 0],
      ['Delivery', (index + 1) * HOUR],
    ]);
  }
  assert.deepEqual(await timelineOf(ids[3]!), [['Send', 0]]);
});

test('the work of a failed step is released and runs in the next advance', async () => {
  const { deliveries, scheduled, advance, timelineOf, now } = await open();
  const [first, second] = (await scheduled(1, 5)) as [string, string];
  let runs = 0;
  const failing: typeof deliveries = {
    ...deliveries,
    attempt: (held) => {
      runs += 1;
      return runs === 2 ? Promise.reject(new Error('a bug of this step')) : deliveries.attempt(held);
    },
  };
  await assert.rejects(advance(10 * HOUR, { kinds: [failing, noWebhooks] }), /a bug of this step/);
  assert.equal(await now(), HOUR, 'earlier steps are kept');
  assert.deepEqual((await timelineOf(first)).at(-1), ['Delivery', HOUR]);
  const moved = await advance(10 * HOUR);
  assert.equal(moved.ok && moved.value.ran, 1);
  assert.deepEqual((await timelineOf(second)).at(-1), ['Delivery', 5 * HOUR], 'at its scheduled time');
  assert.equal(await now(), 11 * HOUR);
});

test('an advance of a crashed process does not block others after a restart', async () => {
  const { database, clock, scheduled, advance, now } = await open();
  await scheduled(1);
  const dead = { accountId: 'acc_1', by: 'dead', nowMs: clock.now(), leaseMs: HOUR };
  assert.equal(await database.execute(beginMoveOperation, dead), true);
  await database.execute(recoverOperation, clock.now());
  const moved = await advance(2 * HOUR);
  assert.equal(moved.ok && moved.value.ran, 1);
  assert.equal(await now(), 2 * HOUR);
});

test('a clock can be advanced by twenty years in total', async () => {
  const { advance, now } = await open();
  const year = 365 * 24 * HOUR;
  assert.equal((await advance(20 * year)).ok, true);
  const refused = await advance(1);
  assert.ok(!refused.ok && refused.failure.code === 'INVALID_REQUEST');
  assert.deepEqual([refused.failure.details[0]?.field, await now()], ['seconds', 20 * year]);
  assert.equal((await advance(0)).ok, true);
});

test('a client that disconnects ends the advance', async () => {
  const { database, clock, deliveries, scheduled, now } = await open();
  await scheduled(1, 2, 3);
  const controller = new AbortController();
  const leaving: typeof deliveries = {
    ...deliveries,
    attempt: (held) => {
      controller.abort();
      return deliveries.attempt(held);
    },
  };
  const kinds = [leaving, noWebhooks] as const;
  const advance = createAdvance({ database, clock, kinds, nudge: () => undefined });
  const moved = await advance({ accountId: 'acc_1', byMs: 9 * HOUR, signal: controller.signal });
  assert.deepEqual([moved.ok && moved.value.ran, await now()], [1, HOUR]);
});

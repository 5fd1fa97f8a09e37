/** The settler during a storage failure: what it keeps, how soon it continues, and that one invalid result does not affect others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { Settler, type SettlerDeps } from './settler.ts';
import type { Lease, RowsToPutBack } from './store.ts';

const RESULT: Lease = { seq: 1, fence: 1 };

function settlerOf(deps: Partial<SettlerDeps<Lease>>): Settler<Lease> {
  return new Settler<Lease>({
    database: { state: () => ({ ready: true }), execute: async () => undefined } as unknown as Database,
    log: silentLog,
    now: () => 1,
    record: async () => [],
    isFinal: () => true,
    onDone: () => undefined,
    onPaused: () => undefined,
    ...deps,
  });
}

test('a database that recovers is noticed immediately, even in a long pause', async () => {
  let ready = true;
  const triesMs: number[] = [];
  let recordedMs = 0;
  const settler = settlerOf({
    database: { state: () => ({ ready }) } as unknown as Database,
    record: async () => {
      triesMs.push(performance.now());
      if (!ready) throw new Unavailable('away');
      return [];
    },
    onDone: () => {
      recordedMs = runningMs();
    },
  });
  ready = false;
  settler.add(RESULT);
  // 100, 200, 400, 800 ms: the next pause takes 1,600.
  await waitUntil('the pause to grow', () => triesMs.length === 5);
  const backMs = runningMs();
  ready = true;
  await settler.drained();
  assert.equal(triesMs.length, 6);
  assert.ok(recordedMs - backMs < 500, `${Math.round(recordedMs - backMs)} ms after the recovery`);
});

test('storage that rejects while available is not retried more often', async () => {
  const triesMs: number[] = [];
  const settler = settlerOf({
    record: async () => {
      triesMs.push(performance.now());
      if (triesMs.length < 5) throw new Unavailable('locked');
      return [];
    },
  });
  settler.add(RESULT);
  await settler.drained();
  assert.ok(triesMs.at(-1)! - triesMs[0]! >= 1_400, 'pauses grow');
});

test('a result that cannot be recorded does not affect other results or returned rows', async () => {
  for (const results of [[1], [1, 2, 3]]) {
    const written = { results: [] as number[], park: [] as number[], release: [] as number[], crashed: [] as number[] };
    let refusals = 0;
    const refuseOnce = (): void => {
      refusals += 1;
      if (refusals <= 2) throw new Unavailable('not now');
    };
    const settler = settlerOf({
      database: {
        state: () => ({ ready: true }),
        execute: async (_: unknown, rows: Required<RowsToPutBack>) => {
          refuseOnce();
          for (const list of ['park', 'release', 'crashed'] as const)
            written[list].push(...rows[list].map((one) => one.seq));
        },
      } as unknown as Database,
      record: async (batch) => {
        refuseOnce();
        if (batch.some((one) => one.seq === 1)) throw new Error('a row that cannot be written');
        written.results.push(...batch.map((one) => one.seq));
        return [];
      },
    });
    for (const seq of results) settler.add({ seq, fence: 1 });
    settler.putBack('park', { seq: 10, fence: 1 });
    settler.putBack('release', { seq: 11, fence: 1 });
    settler.putBack('crashed', { seq: 12, fence: 1, dueMs: 5 });
    assert.equal(settler.pending, results.length);
    await settler.drained();
    assert.equal(settler.pending, 0);
    assert.deepEqual(settler.recall(1), { seq: 1, fence: 1 }, 'the invalid one is remembered');
    written.crashed.sort((a, b) => a - b);
    assert.deepEqual(written, { results: results.slice(1), park: [10], release: [11], crashed: [1, 12] });
  }
});

test('a result whose lease was lost is recorded with the new fence, or remembered if final', async () => {
  const recorded: Lease[] = [];
  const settler = settlerOf({
    record: async (batch) => {
      const lost = batch.filter((one) => one.fence === 1);
      recorded.push(...batch.filter((one) => one.fence !== 1));
      settler.adopt(1, 2);
      return lost.map((one) => one.seq);
    },
    isFinal: ({ seq }) => seq === 2,
  });
  for (const seq of [1, 2, 3]) settler.add({ seq, fence: 1 });
  await settler.drained();
  assert.deepEqual(recorded, [{ seq: 1, fence: 2 }]);
  assert.deepEqual(
    [1, 2, 3].map((seq) => settler.recall(seq)?.seq),
    [undefined, 2, undefined],
  );
});

test('a row claimed again before its result is confirmed is released immediately', async () => {
  const released: Lease[] = [];
  const settler: Settler<Lease> = settlerOf({
    database: {
      state: () => ({ ready: true }),
      execute: async (_: unknown, { release }: Required<RowsToPutBack>) => void released.push(...release),
    } as unknown as Database,
    record: async () => {
      settler.adopt(1, 2);
      return [];
    },
  });
  settler.add(RESULT);
  await settler.drained();
  assert.deepEqual(released, [{ seq: 1, fence: 2 }]);
});

test('a row returned after the stop is released and not counted as a crash', async () => {
  const written: RowsToPutBack[] = [];
  const settler = settlerOf({
    database: {
      state: () => ({ ready: true }),
      execute: async (_: unknown, rows: RowsToPutBack) => void written.push(rows),
    } as unknown as Database,
  });
  await settler.drained();
  settler.abandon();
  settler.putBack('release', { seq: 7, fence: 1 });
  assert.deepEqual(
    written.map(({ release }) => release),
    [[{ seq: 7, fence: 1 }]],
  );
});

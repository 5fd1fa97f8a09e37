/** A settle that our own code refuses: nothing else is lost with it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { systemClock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { createSettler } from './settler.ts';
import type { Settled, SettleRequest } from './work-store.ts';

const settled = (seq: number): Settled => ({
  ...{ seq, fence: 1, accountId: 'acc_1', webhookId: 'whk_1', eventSeq: 1, eventId: 'evt_1', eventType: 'Send' },
  ...{
    mode: 'live',
    url: null,
    result: 'succeeded',
    tried: true,
    nextAttemptMs: null,
    responseStatus: 200,
    responseStart: '',
  },
  ...{ error: null, latencyMs: 1, atMs: 1 },
});

/** Refuses every request that holds the bad row, and the first one for lack of storage. */
function pickyDatabase(bad: number, written: Record<string, number[]>): Database {
  let calls = 0;
  const execute = async (_: unknown, args: unknown): Promise<unknown> => {
    calls += 1;
    if (calls === 1) throw new Unavailable('not now');
    const request = args as SettleRequest;
    if (request.settled.some((one) => one.seq === bad)) throw new Error('a row that cannot be written');
    for (const list of ['settled', 'park', 'release', 'crashed'] as const) {
      written[list] ??= [];
      written[list].push(...request[list].map((one) => one.seq));
    }
    return { disabled: [], resumed: request.resume.map(() => 0) };
  };
  return { dialect: 'sqlite', execute, state: () => 'open', close: async () => undefined } as unknown as Database;
}

test('a result that cannot be written takes no park, release or crash with it', async () => {
  for (const results of [[1], [1, 2, 3]]) {
    const written: Record<string, number[]> = {};
    const settler = createSettler({
      database: pickyDatabase(1, written),
      clock: systemClock,
      log: silentLog,
      onSettled: () => undefined,
    });
    for (const seq of results) settler.settle(settled(seq));
    settler.park({ seq: 10, fence: 1 });
    settler.release({ seq: 11, fence: 1 });
    settler.crashed({ seq: 12, fence: 1 }, 5);
    assert.deepEqual(
      settler.pending().map((one) => one.seq),
      [...results, 10, 11, 12],
    );
    await waitUntil('everything to be written', () => settler.pending().length === 0);
    assert.deepEqual(written, { settled: results.slice(1), park: [10], release: [11], crashed: [12] });
  }
});

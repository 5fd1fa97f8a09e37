/**
 * Runs the attempts of sandbox mail that come due while the account's clock is moved: each at its own time by that clock,
 * played and recorded as the worker does it.
 */

import { deliveryDelayMs } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { SandboxRunner } from '../sandbox/sandbox.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { noteRecorded, type ResultMetrics } from './recorded.ts';
import { sandboxJobsOperation } from './sandbox-store.ts';
import { settleOperation } from './settle.ts';
import { suppressedSettlementOf } from './settlement.ts';
import { playSandbox } from './to-sandbox.ts';

/** The schedule with its jitter at the least; after the last step it stays the same. */
const SHORTEST_WAITS_MS = Array.from({ length: 8 }, (_, attempts) => Math.floor(deliveryDelayMs(attempts + 1) * 0.9));
const MOST = 200;

export interface SandboxDeliveryDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  metrics?: ResultMetrics;
  /** Uniform in [0, 1); the jitter of retries. */
  random?: () => number;
}

export function createSandboxDeliveries(deps: SandboxDeliveryDeps): SandboxRunner {
  const { database, clock } = deps;
  const random = deps.random ?? Math.random;
  return {
    kind: 'delivery',
    shortestWaitsMs: SHORTEST_WAITS_MS,
    most: MOST,
    run: async (works) => {
      const jobs = await database.execute(sandboxJobsOperation, { works, nowMs: clock.now() });
      const atMs = new Map(works.map((work) => [work.seq, work.atMs]));
      const settlements = jobs.map((job) => {
        const nowMs = atMs.get(job.seq)!;
        return job.suppressed ? suppressedSettlementOf(job, nowMs) : playSandbox(job, { nowMs, random: random() });
      });
      if (settlements.length === 0) return 0;
      const { lost, blobKeys } = await database.execute(settleOperation, settlements);
      const unwritten = new Set(lost);
      for (const settlement of settlements) if (!unwritten.has(settlement.seq)) noteRecorded(deps, settlement);
      for (const key of blobKeys) {
        await deps.blobs.remove(key).catch((error: Error) => {
          deps.log.warn({ blobKey: key, error: error.message }, 'content could not be removed; the sweep will do it');
        });
      }
      return settlements.length - lost.length;
    },
  };
}

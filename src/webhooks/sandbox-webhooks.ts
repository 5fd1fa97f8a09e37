/**
 * Runs the webhook attempts that come due while the clock of an account's sandbox is moved: real requests, at times and with
 * a schedule by that clock, recorded as the worker does it. Requests of one call are under way together.
 */

import { webhookDelayMs } from '../base/backoff.ts';
import { WEBHOOK_WORK } from '../events/events.ts';
import type { SandboxRunner } from '../sandbox/sandbox.ts';
import type { Database } from '../storage/database.ts';
import { AttemptRunner, type AttemptRunnerDeps } from './attempt-runner.ts';
import { sandboxBatchOperation, settleOperation } from './work-store.ts';

const MOST = 50;

/** The schedule with its jitter at the least. */
function shortestWaitsMs(): number[] {
  const waits: number[] = [];
  for (let attempts = 1; ; attempts += 1) {
    const delayMs = webhookDelayMs(attempts);
    if (delayMs === undefined) return waits;
    waits.push(Math.floor(delayMs * 0.9));
  }
}

export function createSandboxWebhooks(deps: AttemptRunnerDeps & { database: Database }): SandboxRunner {
  const { database, clock } = deps;
  const runner = new AttemptRunner(deps);
  return {
    kind: WEBHOOK_WORK,
    shortestWaitsMs: shortestWaitsMs(),
    most: MOST,
    run: async (works) => {
      const batch = await database.execute(sandboxBatchOperation, { works, nowMs: clock.now() });
      const atMs = new Map(works.map((work) => [work.seq, work.atMs]));
      const settled = await Promise.all(
        runner.outgoing(batch).map((outgoing) => {
          const nowMs = atMs.get(outgoing.job.seq)!;
          return runner.withoutAttempt(outgoing, nowMs) ?? runner.attempt(outgoing, () => nowMs);
        }),
      );
      if (settled.length > 0) await database.execute(settleOperation, { nowMs: clock.now(), settled });
      return settled.filter((one) => one.tried).length;
    },
  };
}

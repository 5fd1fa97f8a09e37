/** Resets the clock of an account's sandbox to real time, after removing the mail that carries its times. */
import { type Failure, failure, ok, type Result, refuse } from '../../base/failure.ts';
import { randomText } from '../../base/ids.ts';
import { type AdvanceDeps, beginMove, clockIsBusy, MOVE_LEASE_MS, waitUntilQuiet } from '../../sandbox/sandbox.ts';
import { resetStepOperation } from './reset-store.ts';

/** Maximum number of emails, and of rows of each other table, per transaction: other writers wait a few milliseconds for it. */
const STEP_ROWS = 200;
/** Ends the reset of a sandbox that keeps receiving mail. */
const BUDGET_MS = 25_000;

export interface Reset {
  accountId: string;
  /** Ends the removal between two steps: removed mail stays removed, and the clock stays moved. */
  signal: AbortSignal;
}

function interrupted(): Failure {
  return failure('CONFLICT', {
    message:
      'The reset did not finish: there is a lot of mail, another call moved this clock, or the service is stopping. Repeat the call.',
  });
}

/**
 * Returns the number of messages removed. CONFLICT while other calls move the clock, or if the reset takes longer than 25 s; rejects with
 * Unavailable as the storage does.
 */
export function createSandboxReset(deps: AdvanceDeps): (reset: Reset) => Promise<Result<{ removed: number }>> {
  const { database, clock } = deps;
  const kinds = [deps.kinds[0].kind, deps.kinds[1].kind] as const;
  return async ({ accountId, signal }) => {
    await waitUntilQuiet(deps, { accountId, signal });
    const by = randomText(16);
    if (!(await beginMove(deps, accountId, by))) return refuse(clockIsBusy());
    let removed = 0;
    const latest = performance.now() + BUDGET_MS;
    while (!signal.aborted && performance.now() < latest) {
      const progress = await database.execute(resetStepOperation, {
        accountId,
        by,
        nowMs: clock.now(),
        leaseMs: MOVE_LEASE_MS,
        limit: STEP_ROWS,
        kinds,
      });
      if (progress === undefined) break;
      removed += progress.removed;
      if (progress.isDone) return ok({ removed });
    }
    return refuse(interrupted());
  };
}

/** Sets the clock of an account's sandbox back to real time, once the mail that carries its times is removed. */
import { type Failure, failure, ok, type Result, refuse } from '../../base/failure.ts';
import { randomText } from '../../base/ids.ts';
import { type AdvanceDeps, beginMove, clockIsBusy, MOVE_LEASE_MS, waitUntilQuiet } from '../../sandbox/sandbox.ts';
import { resetStepOperation } from './reset-store.ts';

/** Emails and other rows of one transaction at most: it holds up other writers for some milliseconds. */
const STEP_ROWS = 200;

export interface Reset {
  accountId: string;
  /** Ends the removal between two steps; what is removed stays removed, and the clock as it is. */
  signal: AbortSignal;
}

function interrupted(): Failure {
  return failure('CONFLICT', {
    message: 'The reset did not finish: another call moved this clock, or the service stops. Repeat the call.',
  });
}

/** Answers how many messages were removed. CONFLICT while other calls move the clock; rejects with Unavailable as storage does. */
export function createSandboxReset(deps: AdvanceDeps): (reset: Reset) => Promise<Result<{ removed: number }>> {
  const { database, clock } = deps;
  const kinds = [deps.kinds[0].kind, deps.kinds[1].kind] as const;
  return async ({ accountId, signal }) => {
    await waitUntilQuiet(deps, { accountId, signal });
    const by = randomText(16);
    if (!(await beginMove(deps, accountId, by))) return refuse(clockIsBusy());
    let removed = 0;
    while (!signal.aborted) {
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

/**
 * Mail of accounts that are suspended while the delivery holds it: it goes back to the queue untried, where the next claim
 * lets it rest. What has expired meanwhile bounces.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { putBackOperation } from '../work/work.ts';
import { expiredWhileSuspended } from './outcome.ts';
import type { Results } from './results.ts';
import type { Held, Window } from './window.ts';

export interface RestingDeps {
  database: Database;
  clock: Clock;
  log: Log;
  window: Window;
  results: Pick<Results, 'settle'>;
  /** Whether the account is suspended right now: nothing of it leaves then. */
  isSuspended(accountId: string): boolean | Promise<boolean>;
}

export interface Resting {
  isHeldBack(group: Held[]): Promise<boolean>;
  giveBack(group: Held[]): Promise<void>;
}

export function openResting({ database, clock, log, window, results, isSuspended }: RestingDeps): Resting {
  return {
    isHeldBack: async (group) => {
      try {
        const suspended = isSuspended(group[0]!.job.accountId);
        return typeof suspended === 'boolean' ? suspended : await suspended;
      } catch (error) {
        log.warn({ error: (error as Error).message }, 'whether an account is suspended could not be read');
        return true;
      }
    },
    giveBack: async (group) => {
      const leases: { seq: number; fence: number }[] = [];
      for (const held of group) {
        const { seq, fence, expiresAt, clockOffsetMs = 0 } = held.job;
        if (clock.now() + clockOffsetMs >= expiresAt) {
          results.settle(held, { outcome: expiredWhileSuspended(), facts: null });
          continue;
        }
        window.remove(held);
        leases.push({ seq, fence });
      }
      if (leases.length === 0) return;
      await database.execute(putBackOperation, { release: leases, nowMs: clock.now() }).catch((error: Error) => {
        log.warn(
          { error: error.message },
          'messages of a suspended account could not be given back; their leases run out',
        );
      });
    },
  };
}

/**
 * The time in an account's sandbox: real time plus the offset of the account's clock. Read from the database each time, so that a clock
 * moved on one node is moved on all.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { clockOffsetOperation } from './clock-store.ts';

export interface SandboxClock {
  /** Returns how far the account's clock is ahead of real time, in ms. */
  clockOffsetMs(accountId: string): Promise<number>;
  /** Returns Unix ms by the account's clock. */
  now(accountId: string): Promise<number>;
}

export function createSandboxClock({ database, clock }: { database: Database; clock: Clock }): SandboxClock {
  const clockOffsetMs = (accountId: string): Promise<number> => database.execute(clockOffsetOperation, accountId);
  return {
    clockOffsetMs,
    now: async (accountId) => {
      const offset = await clockOffsetMs(accountId);
      return clock.now() + offset;
    },
  };
}

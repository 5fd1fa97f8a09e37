/**
 * Whether an account is suspended, for the delivery, which asks before each attempt: from memory, at most 700 ms old, so that a
 * suspension is felt within a second. An account that does not exist is not suspended: mail of the service itself has none.
 */
import type { Clock } from '../base/clock.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import type { Database } from '../storage/database.ts';
import type { AccountStatus } from './account.ts';
import { FRESH_MS } from './authenticate.ts';
import { accountOperation } from './store.ts';

const ACCOUNTS_KEPT = 10_000;

/** Rejects with Unavailable as the database does. */
export function createSuspensionCheck(options: {
  database: Database;
  clock: Clock;
}): (accountId: string) => boolean | Promise<boolean> {
  const cache = createFreshCache<string, AccountStatus>({
    clock: options.clock,
    maxAgeMs: FRESH_MS,
    limit: ACCOUNTS_KEPT,
    absentLimit: 0,
    read: async (id) => (await options.database.execute(accountOperation, id))?.status ?? 'active',
  });
  return (accountId) => {
    const status = cache.get(accountId, accountId);
    return status instanceof Promise ? status.then((late) => late === 'suspended') : status === 'suspended';
  };
}

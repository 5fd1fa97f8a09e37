/**
 * Who calls: the API key and the account id of a request against the database, through a cache that keeps the hot path
 * free of it. What is cached is at most 700 ms old, so that what another process changes (a revoked key, a suspended
 * account, another plan) is felt within a second; what this process changes is forgotten, and felt at once. Every reason
 * for not knowing the caller gets the same refusal after the same work.
 */
import { hash, randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Database } from '../storage/database.ts';
import type { Caller } from './account.ts';
import { findKeyOperation } from './key-store.ts';
import { keyIdOf } from './keys.ts';

/** Age of what an authentication may rest on. */
export const FRESH_MS = 700;
const KEYS_KEPT = 10_000;
/** Longer than any key; a longer text is checked by its beginning and is refused as every unknown key. */
const LONGEST_KEY = 256;

const unauthorized = refuse(failure('UNAUTHORIZED'));
const suspended = refuse(failure('ACCOUNT_SUSPENDED'));

/** What the authenticator remembers, for those who change it; called after the commit. */
export interface KnownCallers {
  evictKey(keyId: string): void;
  /** All keys of the account. */
  evictAccount(accountId: string): void;
}

export interface Authenticator extends KnownCallers {
  /** Answers at once for a key it has seen within the last moments; rejects with Unavailable as the database does. */
  (apiKey: string | undefined, accountId: string | undefined): Result<Caller> | Promise<Result<Caller>>;
}

interface Known {
  accountId: string;
  keyId: string;
  result: Result<Caller>;
}

export function createAuthenticator(options: { database: Database; clock: Clock }): Authenticator {
  const cache = createFreshCache<{ keyId: string; digest: string }, Known>({
    clock: options.clock,
    maxAgeMs: FRESH_MS,
    limit: KEYS_KEPT,
    // An unknown key is looked up each time: an answer from memory would be quicker than the others.
    absentLimit: 0,
    read: async ({ keyId, digest }) => {
      const secretHash = Buffer.from(digest, 'base64');
      const caller = await options.database.execute(findKeyOperation, { keyId, secretHash });
      if (!caller) return undefined;
      const { account } = caller;
      return { accountId: account.id, keyId, result: account.status === 'active' ? ok(caller) : suspended };
    },
  });

  const resultFor = (known: Known | undefined, accountId: string | undefined): Result<Caller> =>
    known !== undefined && known.accountId === accountId ? known.result : unauthorized;

  /** The refusal after the work that it costs for a key that nobody has. */
  const afterLookUp = async (): Promise<Result<Caller>> => {
    await options.database.execute(findKeyOperation, { keyId: keyIdOf(''), secretHash: randomBytes(32) });
    return unauthorized;
  };

  const authenticate = (apiKey: string | undefined, accountId: string | undefined) => {
    const presented = apiKey === undefined ? '' : apiKey.slice(0, LONGEST_KEY);
    const digest = hash('sha256', presented, 'base64');
    const known = cache.get(digest, { keyId: keyIdOf(presented), digest });
    if (known instanceof Promise) return known.then((late) => resultFor(late, accountId));
    const result = resultFor(known, accountId);
    return result === unauthorized ? afterLookUp() : result;
  };
  return Object.assign(authenticate, {
    evictKey: (keyId: string) => cache.evictWhere((known) => known.keyId === keyId),
    evictAccount: (accountId: string) => cache.evictWhere((known) => known.accountId === accountId),
  });
}

/**
 * Who calls, over HTTP with an API key and over SMTP with a log-in, through caches that keep the hot path free of the database. What
 * is cached is at most 700 ms old, so that what another process changes (a revoked key, a suspended account, another plan) is felt
 * within a second; what this process changes is forgotten, and felt at once. Every reason for not knowing the caller gets the same
 * refusal after the same work.
 *
 * An API key is `pr_live_` or `pr_test_`, the 21 characters of its id, and 32 random ones (190 bits). The id finds the row, so that
 * nothing is compared with another key's secret; of the whole key only its SHA-256 is stored. The secret has too many bits to be
 * guessed from a fast hash, and a slow one would cost every request.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Actor } from '../base/actor.ts';
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import type { Caller } from './account.ts';
import { type CredentialHolder, findCredentialOperation, findKeyOperation } from './credential-store.ts';
import { NOBODYS_PASSWORD, verifyPassword } from './passwords.ts';
import { isHeldOperation } from './protection-store.ts';

/** Age of what an authentication may rest on. */
const FRESH_MS = 700;
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
  /** The same for a key that names no account: the caller is the key's own account. */
  ofKey(apiKey: string): Result<Caller> | Promise<Result<Caller>>;
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

  const recall = (apiKey: string | undefined) => {
    const presented = apiKey === undefined ? '' : apiKey.slice(0, LONGEST_KEY);
    const digest = hash('sha256', presented, 'base64');
    return cache.get(digest, { keyId: keyIdOf(presented), digest });
  };
  const authenticate = (apiKey: string | undefined, accountId: string | undefined) => {
    const known = recall(apiKey);
    if (known instanceof Promise) return known.then((late) => resultFor(late, accountId));
    const result = resultFor(known, accountId);
    return result === unauthorized ? afterLookUp() : result;
  };
  return Object.assign(authenticate, {
    ofKey: (apiKey: string) => {
      const known = recall(apiKey);
      if (known instanceof Promise) return known.then((late) => late?.result ?? unauthorized);
      return known?.result ?? afterLookUp();
    },
    evictKey: (keyId: string) => cache.evictWhere((known) => known.keyId === keyId),
    evictAccount: (accountId: string) => cache.evictWhere((known) => known.accountId === accountId),
  });
}

const PREFIXES: Record<Mode, string> = { live: 'pr_live_', sandbox: 'pr_test_' };
const SHAPE = /^pr_(?:live|test)_([0-9A-Za-z]{21})_[0-9A-Za-z]{32}$/;
/** An id that no key has: what does not look like a key is looked up all the same. */
const NOBODY = 'key_000000000000000000000';

interface NewApiKey {
  keyId: string;
  /** Shown once. */
  apiKey: string;
  secretHash: Uint8Array;
}

export function newApiKey(mode: Mode, nowMs: number): NewApiKey {
  const keyId = newId('key', nowMs);
  const apiKey = `${PREFIXES[mode]}${keyId.slice('key_'.length)}_${randomText(32)}`;
  return { keyId, apiKey, secretHash: apiKeyHash(apiKey) };
}

/** What is stored of a key: the SHA-256 of all of it. */
export function apiKeyHash(apiKey: string): Uint8Array {
  return hash('sha256', apiKey, 'buffer');
}

/** The id of the row that a presented key belongs to, if any; an id without a row when the text is no key at all. */
export function keyIdOf(apiKey: string): string {
  const match = SHAPE.exec(apiKey);
  return match ? `key_${match[1]}` : NOBODY;
}

const ACCOUNTS_KEPT = 10_000;

/**
 * Whether live mail of an account has to wait (the account is suspended, or its mail is held). The delivery asks before each attempt.
 * False for mail of the service itself, which has no account. Rejects with Unavailable as the database does.
 */
export function createSuspensionCheck(options: {
  database: Database;
  clock: Clock;
}): (accountId: string) => boolean | Promise<boolean> {
  const cache = createFreshCache<string, boolean>({
    clock: options.clock,
    maxAgeMs: FRESH_MS,
    limit: ACCOUNTS_KEPT,
    absentLimit: 0,
    read: (id) => options.database.execute(isHeldOperation, id),
  });
  return (accountId) => {
    const isHeld = cache.get(accountId, accountId);
    return isHeld instanceof Promise ? isHeld.then((late) => late === true) : isHeld === true;
  };
}

const CREDENTIALS_KEPT = 10_000;
const UNKNOWN_KEPT = 1_000;
const LONGEST = 256;

const refused = refuse(failure('UNAUTHORIZED', { message: 'Authentication failed. Check username and password.' }));

/** What is remembered of log-ins, for those who change it; called after the commit. */
export interface KnownLogins {
  evictCredential(credentialId: string): void;
  /** All credentials of the account. */
  evictAccount(accountId: string): void;
}

export interface SmtpAuthenticator extends KnownLogins {
  /**
   * The caller of a log-in that was right a moment ago; undefined when that is not known, whatever the reason. Costs no
   * argon2, so that those who guess do not hold up those who know.
   */
  recall(username: string, password: string): Promise<Caller | undefined>;
  /** The caller of a log-in (its keyId is the credential's id); the same refusal for every reason. */
  logIn(username: string, password: string): Promise<Result<Caller>>;
  /**
   * The caller as of now, for the next MAIL of an open session: refused once revoked, suspended or without SMTP. `caller` is who the
   * user name logged in as.
   */
  stillAllowed(username: string, caller?: Caller): Result<Caller> | Promise<Result<Caller>>;
}

function eligible(holder: CredentialHolder | undefined): holder is CredentialHolder {
  return holder !== undefined && holder.account.status === 'active' && holder.account.plan !== 'free';
}

function callerOf(holder: CredentialHolder): Caller {
  const { account, mode, allowedSenders, deliveryReports, credentialId: keyId } = holder;
  const actor: Actor = { kind: 'credential', id: keyId, name: keyId };
  return { account, mode, scope: 'send', keyId, allowedSenders, actor, deliveryReports };
}

/**
 * A password that was right is remembered (as a keyed hash, in memory only), so that a client that connects for each mail does not
 * cost an argon2 each time; the row behind it is still read again.
 */
export function createSmtpAuthenticator(options: { database: Database; clock: Clock }): SmtpAuthenticator {
  const processKey = randomBytes(32);
  const proven = new Map<string, Buffer>();
  const holders = createFreshCache<string, CredentialHolder>({
    clock: options.clock,
    maxAgeMs: FRESH_MS,
    limit: CREDENTIALS_KEPT,
    absentLimit: UNKNOWN_KEPT,
    read: async (username) => (await options.database.execute(findCredentialOperation, username)) ?? undefined,
  });

  const proofOf = (password: string, holder: CredentialHolder): Buffer =>
    createHmac('sha256', processKey).update(`${holder.passwordHash}\n${password}`).digest();

  const holderOf = (username: string) => holders.get(username.slice(0, LONGEST), username.slice(0, LONGEST));

  const isProven = (password: string, holder: CredentialHolder): boolean => {
    const known = proven.get(holder.credentialId);
    return known !== undefined && timingSafeEqual(known, proofOf(password, holder));
  };

  return {
    recall: async (username, password) => {
      const holder = await holderOf(username);
      return eligible(holder) && isProven(password, holder) ? callerOf(holder) : undefined;
    },
    logIn: async (username, password) => {
      const holder = await holderOf(username);
      const may = eligible(holder);
      if (may && isProven(password, holder)) return ok(callerOf(holder));
      const right = await verifyPassword(password.slice(0, LONGEST), holder?.passwordHash ?? NOBODYS_PASSWORD);
      if (!may || !right || password.length > LONGEST) return refused;
      proven.delete(holder.credentialId);
      proven.set(holder.credentialId, proofOf(password, holder));
      if (proven.size > CREDENTIALS_KEPT) proven.delete(proven.keys().next().value as string);
      return ok(callerOf(holder));
    },
    stillAllowed: (username) => {
      const check = (holder: CredentialHolder | undefined): Result<Caller> =>
        eligible(holder) ? ok(callerOf(holder)) : refused;
      const holder = holders.get(username, username);
      return holder instanceof Promise ? holder.then(check) : check(holder);
    },
    evictCredential: (credentialId) => {
      proven.delete(credentialId);
      holders.evictWhere((holder) => holder.credentialId === credentialId);
    },
    evictAccount: (accountId) => holders.evictWhere((holder) => holder.account.id === accountId),
  };
}

/**
 * Authenticates callers, over HTTP with an API key and over SMTP with a login, through caches that keep the hot path free of the database.
 * The address of the client is never cached: for an API key the HTTP pipeline checks it on every request, for a login this file does.
 * Cached data is at most 700 ms old, so changes by another process (a revoked key, a suspended account, another plan) take effect within a
 * second. Changes by this process evict the cache entry and take effect immediately. All authentication failures get the same response
 * after the same work.
 *
 * An API key is `pr_live_` or `pr_test_`, the 21 characters of its id, and 32 random characters (190 bits). The id finds the row, so a
 * secret is compared with one key only; only the SHA-256 of the key is stored. The secret has too many bits to guess from a fast hash, and
 * a slow hash would cost every request.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Actor } from '../base/actor.ts';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, ok, type Result, refuse } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { open, seal } from '../base/seal.ts';
import { isAllowedAddress } from '../net/networks.ts';
import type { Database } from '../storage/database.ts';
import type { Caller } from './account.ts';
import {
  type CredentialHolder,
  findCredentialOperation,
  findKeyOperation,
  findSigningKeyOperation,
  type SigningKeyHolder,
} from './credential-store.ts';
import { UNKNOWN_USER_PASSWORD, verifyPassword } from './passwords.ts';
import { isHeldOperation } from './protection-store.ts';

/** Maximum age of cached authentication data. */
const FRESH_MS = 700;
const KEYS_KEPT = 10_000;
/** Limit above the length of any key. Only this many characters are hashed; a longer text is refused like any unknown key. */
const MAX_KEY_LENGTH = 256;

const hasExpired = ({ expiresAt }: Pick<Caller, 'expiresAt'>, clock: Clock): boolean =>
  expiresAt !== undefined && expiresAt !== null && expiresAt <= clock.now();

const unauthorized = refuse(failure('UNAUTHORIZED'));
const suspended = refuse(failure('ACCOUNT_SUSPENDED'));

/** The authentication cache, for code that changes keys or accounts. It must evict the changed ones after the commit. */
export interface CallerCache {
  evictKey(keyId: string): void;
  evictAccount(accountId: string): void;
}

export interface Authenticator extends CallerCache {
  /** Returns synchronously for a recently seen key; rejects with Unavailable if the database does. */
  (apiKey: string | undefined, accountId: string | undefined): Result<Caller> | Promise<Result<Caller>>;
  /** Does the same for a request without an account id; the result is the account of the key. */
  ofKey(apiKey: string): Result<Caller> | Promise<Result<Caller>>;
  /**
   * Returns the holder of a key that signs requests; undefined if no active key has this id, which is public. The caller must verify a
   * signature before it uses the result.
   */
  ofAccessKey(accessKeyId: string): Promise<SigningKeyHolder | undefined>;
}

interface CachedCaller {
  accountId: string;
  keyId: string;
  result: Result<Caller>;
}

export function createAuthenticator(options: { database: Database; clock: Clock }): Authenticator {
  const cache = createFreshCache<{ keyId: string; digest: string }, CachedCaller>({
    clock: options.clock,
    maxAgeMs: FRESH_MS,
    limit: KEYS_KEPT,
    // Unknown keys are not cached: a response from memory would be faster than the others and reveal that the key is unknown.
    absentLimit: 0,
    read: async ({ keyId, digest }) => {
      const secretHash = Buffer.from(digest, 'base64');
      const caller = await options.database.execute(findKeyOperation, { keyId, secretHash });
      if (!caller || hasExpired(caller, options.clock)) return undefined;
      const { account } = caller;
      return { accountId: account.id, keyId, result: account.status === 'active' ? ok(caller) : suspended };
    },
  });

  const signing = createFreshCache<string, SigningKeyHolder>({
    clock: options.clock,
    maxAgeMs: FRESH_MS,
    limit: KEYS_KEPT,
    absentLimit: 0,
    read: async (accessKeyId) => {
      const holder = await options.database.execute(findSigningKeyOperation, accessKeyId);
      return holder && !hasExpired(holder.caller, options.clock) ? holder : undefined;
    },
  });

  const resultFor = (known: CachedCaller | undefined, accountId: string | undefined): Result<Caller> =>
    known !== undefined && known.accountId === accountId ? known.result : unauthorized;

  /** Refuses after the same work as for an unknown key. */
  const refuseAfterLookup = async (): Promise<Result<Caller>> => {
    await options.database.execute(findKeyOperation, { keyId: keyIdOf(''), secretHash: randomBytes(32) });
    return unauthorized;
  };

  const recall = (apiKey: string | undefined) => {
    const presented = apiKey === undefined ? '' : apiKey.slice(0, MAX_KEY_LENGTH);
    const digest = hash('sha256', presented, 'base64');
    return cache.get(digest, { keyId: keyIdOf(presented), digest });
  };
  const authenticate = (apiKey: string | undefined, accountId: string | undefined) => {
    const known = recall(apiKey);
    if (known instanceof Promise) return known.then((late) => resultFor(late, accountId));
    const result = resultFor(known, accountId);
    return result === unauthorized ? refuseAfterLookup() : result;
  };
  return Object.assign(authenticate, {
    ofKey: (apiKey: string) => {
      const known = recall(apiKey);
      if (known instanceof Promise) return known.then((late) => late?.result ?? unauthorized);
      return known?.result ?? refuseAfterLookup();
    },
    ofAccessKey: async (accessKeyId: string) => signing.get(accessKeyId, accessKeyId),
    evictKey: (keyId: string) => {
      cache.evictWhere((known) => known.keyId === keyId);
      signing.evictWhere(({ caller }) => caller.keyId === keyId);
    },
    evictAccount: (accountId: string) => {
      cache.evictWhere((known) => known.accountId === accountId);
      signing.evictWhere(({ caller }) => caller.account.id === accountId);
    },
  });
}

const PREFIXES: Record<Mode, string> = { live: 'pr_live_', sandbox: 'pr_test_' };
/** Returns the part of a key before its secret, which identifies the key in lists and in configurations. */
export function keyPrefix(mode: Mode, keyId: string): string {
  return `${PREFIXES[mode]}${keyId.slice('key_'.length)}`;
}

const SHAPE = /^pr_(?:live|test)_([0-9A-Za-z]{21})_[0-9A-Za-z]{32}$/;
/** An id that no key has. Text that does not look like a key is looked up with it. */
const UNKNOWN_KEY_ID = 'key_000000000000000000000';

interface NewApiKey {
  keyId: string;
  /** Returned only once. */
  apiKey: string;
  secretHash: Uint8Array;
}

export function newApiKey(mode: Mode, nowMs: number): NewApiKey {
  const keyId = newId('key', nowMs);
  const apiKey = `${keyPrefix(mode, keyId)}_${randomText(32)}`;
  return { keyId, apiKey, secretHash: apiKeyHash(apiKey) };
}

const ACCESS_KEY_PREFIXES: Record<Mode, string> = { live: 'AKIAPRL', sandbox: 'AKIAPRT' };
const ACCESS_KEY_RANDOM = 13;
const SIGNING_SECRET_LENGTH = 40;
/** Characters of access key ids, as AWS writes them. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const signingContext = (keyId: string): string => `signing-key:${keyId}`;

interface NewSigningKey {
  keyId: string;
  accessKeyId: string;
  /** Returned only once. */
  secretAccessKey: string;
  secretSealed: Uint8Array;
}

/** Creates a key for AWS Signature Version 4: an id of 20 characters in AWS's form, and a secret of 40 characters (238 bits). */
export function newSigningKey(mode: Mode, nowMs: number, secretKey: Uint8Array): NewSigningKey {
  const keyId = newId('key', nowMs);
  const secretAccessKey = randomText(SIGNING_SECRET_LENGTH);
  const random = [...randomBytes(ACCESS_KEY_RANDOM)].map((byte) => BASE32[byte % BASE32.length]);
  return {
    keyId,
    accessKeyId: `${ACCESS_KEY_PREFIXES[mode]}${random.join('')}`,
    secretAccessKey,
    secretSealed: seal(secretKey, secretAccessKey, signingContext(keyId)),
  };
}

/** Returns the secret of a key that signs requests; throws if it was sealed with another secret key. */
export function signingSecretOf({ caller, secretSealed }: SigningKeyHolder, secretKey: Uint8Array): string {
  return open(secretKey, secretSealed, signingContext(caller.keyId)).toString('utf8');
}

/** Returns the SHA-256 of the complete key, the only form that is stored. */
export function apiKeyHash(apiKey: string): Uint8Array {
  return hash('sha256', apiKey, 'buffer');
}

/** Returns the id in a presented key, or an id without a row if the text is not a key. */
export function keyIdOf(apiKey: string): string {
  const match = SHAPE.exec(apiKey);
  return match ? `key_${match[1]}` : UNKNOWN_KEY_ID;
}

const ACCOUNTS_KEPT = 10_000;

/**
 * Creates a check that returns whether live mail of an account is on hold, because the account is suspended or sending protection holds
 * its mail. Delivery calls it before each attempt. It always returns false for mail of the service itself, which has no account. It rejects
 * with Unavailable if the database does.
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
/** Longer user names and passwords are refused. */
const MAX_LOGIN_LENGTH = 256;

const refused = refuse(failure('UNAUTHORIZED', { message: 'Authentication failed. Check username and password.' }));

/** The cache of SMTP logins, for code that changes credentials or accounts. It must evict the changed ones after the commit. */
export interface LoginCache {
  evictCredential(credentialId: string): void;
  evictAccount(accountId: string): void;
}

/** The user name and password of a login, and the address of its client. */
export interface SmtpLogin {
  username: string;
  password: string;
  address: string;
}

/** `outside`: the password is correct, but the client's address is not in the networks of this caller. The client must not learn this. */
export type LogInResult = { ok: true; value: Caller } | { ok: false; failure: Failure; outside?: Caller };

export interface SmtpAuthenticator extends LoginCache {
  /**
   * Returns the caller of a recent successful login; undefined if it is not cached, for any reason. Does not compute argon2, so password
   * guessing does not delay known clients.
   */
  recall(login: SmtpLogin): Promise<Caller | undefined>;
  /** Returns the caller of a login (keyId is the id of the credential); all failures get the same refusal after the same work. */
  logIn(login: SmtpLogin): Promise<LogInResult>;
  /**
   * Returns the current caller for the next MAIL of an open session. Refuses if the credential is revoked or expired, the account is
   * suspended or has no SMTP, or the client's address is no longer allowed. `caller` is the caller that logged in with the user name.
   */
  stillAllowed(session: Omit<SmtpLogin, 'password'>, caller?: Caller): Result<Caller> | Promise<Result<Caller>>;
}

function isEligible(holder: CredentialHolder | undefined, clock: Clock): holder is CredentialHolder {
  if (holder === undefined || hasExpired(holder, clock)) return false;
  return holder.account.status === 'active' && holder.account.plan !== 'free';
}

function callerOf(holder: CredentialHolder): Caller {
  const { account, mode, allowedSenders, allowedNetworks, deliveryReports, expiresAt, credentialId: keyId } = holder;
  const actor: Actor = { kind: 'credential', id: keyId, name: keyId };
  return { account, mode, scope: 'send', keyId, allowedSenders, allowedNetworks, expiresAt, actor, deliveryReports };
}

/**
 * Creates the SMTP authenticator. It caches correct passwords (as a keyed hash, in memory only), so that a client that connects for each
 * message does not cost an argon2 computation each time. The credential's row is still read again.
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

  const holderOf = (username: string) =>
    holders.get(username.slice(0, MAX_LOGIN_LENGTH), username.slice(0, MAX_LOGIN_LENGTH));

  const isProven = (password: string, holder: CredentialHolder): boolean => {
    const known = proven.get(holder.credentialId);
    return known !== undefined && timingSafeEqual(known, proofOf(password, holder));
  };

  const isUsable = (holder: CredentialHolder | undefined, address: string): holder is CredentialHolder =>
    isEligible(holder, options.clock) && isAllowedAddress(address, holder.allowedNetworks);

  return {
    recall: async ({ username, password, address }) => {
      const holder = await holderOf(username);
      return isUsable(holder, address) && isProven(password, holder) ? callerOf(holder) : undefined;
    },
    logIn: async ({ username, password, address }) => {
      const holder = await holderOf(username);
      if (isUsable(holder, address) && isProven(password, holder)) return ok(callerOf(holder));
      const isCorrect = await verifyPassword(
        password.slice(0, MAX_LOGIN_LENGTH),
        holder?.passwordHash ?? UNKNOWN_USER_PASSWORD,
      );
      if (!isEligible(holder, options.clock) || !isCorrect || password.length > MAX_LOGIN_LENGTH) return refused;
      if (!isUsable(holder, address)) return { ...refused, outside: callerOf(holder) };
      proven.delete(holder.credentialId);
      proven.set(holder.credentialId, proofOf(password, holder));
      if (proven.size > CREDENTIALS_KEPT) proven.delete(proven.keys().next().value as string);
      return ok(callerOf(holder));
    },
    stillAllowed: ({ username, address }) => {
      const check = (holder: CredentialHolder | undefined): Result<Caller> =>
        isUsable(holder, address) ? ok(callerOf(holder)) : refused;
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

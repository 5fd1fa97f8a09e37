/**
 * Who logs in over SMTP. A wrong password, an unknown or revoked credential, a suspended account and a plan without SMTP
 * get the same refusal after the same work. A password that was right is remembered (as a keyed hash, in memory only), so that a client
 * that connects for each mail does not cost an argon2 each time; the row behind it is still read again, at most 700 ms old. What this
 * process changes is forgotten, and felt at once.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Database } from '../storage/database.ts';
import type { Caller } from './account.ts';
import { FRESH_MS } from './authenticate.ts';
import { type CredentialHolder, findCredentialOperation } from './credential-store.ts';
import { NOBODYS_PASSWORD, verifyPassword } from './passwords.ts';

const CREDENTIALS_KEPT = 10_000;
const UNKNOWN_KEPT = 1_000;
const LONGEST = 256;

const refused = refuse(failure('UNAUTHORIZED', { message: 'Authentication failed; check user name and password.' }));

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
  /** The caller as of now, for the next MAIL of an open session: refused once revoked, suspended or without SMTP. */
  stillAllowed(username: string): Result<Caller> | Promise<Result<Caller>>;
}

function eligible(holder: CredentialHolder | undefined): holder is CredentialHolder {
  return holder !== undefined && holder.account.status === 'active' && holder.account.plan !== 'free';
}

function callerOf(holder: CredentialHolder): Caller {
  const { account, mode, allowedSenders, credentialId: keyId } = holder;
  return { account, mode, scope: 'send', keyId, allowedSenders };
}

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

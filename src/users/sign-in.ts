/**
 * Login with a password. A wrong address, password, or code, and a user without a password, get the same refusal after the same work: an
 * argon2 hash is computed for unknown addresses too. Few attempts query the database at a time, and few wait for their argon2, so that a
 * flood neither fills the memory nor delays other calls; limits.ts limits the attempts.
 */
import { UNKNOWN_USER_PASSWORD, verifyPassword } from '../accounts/accounts.ts';
import { changedBy } from '../audit/audit.ts';
import type { Actor } from '../base/actor.ts';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, ok, type Result, refuse } from '../base/failure.ts';
import { open } from '../base/seal.ts';
import { createSemaphore } from '../base/semaphore.ts';
import type { RouteRequest } from '../http/route.ts';
import type { Database } from '../storage/database.ts';
import { limitedAddress, limitedName, type TakenTokens, type Wait } from './limits.ts';
import {
  beginSignInOperation,
  type Candidate,
  completeSignInOperation,
  passwordHashOperation,
  type SignIn,
  type SignInAttempt,
} from './session-store.ts';
import { newSession, sessionToken } from './sessions.ts';
import { tokenHash } from './tokens.ts';
import { recoveryCodeHash, verifyTotp } from './totp.ts';
import type { SignInMethod } from './two-factor.ts';
import type { User, UserCaller } from './user.ts';

export const MINIMUM_PASSWORD = 12;
export const LONGEST_PASSWORD = 256;
/** Maximum number of login attempts that query the database at the same time. */
const CONCURRENT_QUERIES = 4;
/** Maximum number of waiting password checks above which logins are refused; SMTP logins, in the same queue, may wait longer. */
const MAX_WAITING = 100;

export const WRONG = refuse(failure('UNAUTHORIZED', { message: 'Incorrect email, password or code.' }));

export interface SignInDeps {
  database: Database;
  clock: Clock;
  /** The service's key. */
  secretKey: Uint8Array;
}

/** The parts of a request that a session and the audit log record, and its cookie, whose session a login replaces. */
export type SessionRequest = Pick<RouteRequest, 'headers' | 'remoteAddress' | 'requestId'> &
  Partial<Pick<RouteRequest, 'isSecure'>>;

/** The database with changes in a user's name, recorded in the audit log. */
export function changesOf(
  { database, clock }: Pick<SignInDeps, 'database' | 'clock'>,
  user: Pick<User, 'id' | 'email'>,
  { remoteAddress: address, requestId }: SessionRequest,
): Database {
  const actor: Actor = { kind: 'user', id: user.id, name: user.email };
  return changedBy(database, { atMs: clock.now(), actor, accountId: null, mode: null, address, requestId });
}

export interface SignedInUser {
  user: User;
  sessionId: string;
  /** For the cookie. */
  token: string;
}

export const totpContext = (userId: string): string => `totp:${userId}`;

/** Normalizes a password, so that it is the same from any keyboard. */
export function normalPassword(password: string): string {
  return password.normalize('NFC');
}

export function normalEmail(email: string): string {
  return email.trim().toLowerCase();
}

/** Returns RATE_LIMITED with the time to wait. */
export function tooMany({ waitMs, limit }: Wait): { ok: false; failure: Failure } {
  return refuse(failure('RATE_LIMITED', { limit, retryAfterSeconds: Math.ceil(waitMs / 1000) }));
}

export function createSignIn({ database, clock, secretKey }: SignInDeps) {
  const queries = createSemaphore(CONCURRENT_QUERIES);

  const begin = (email: string, { remoteAddress }: SessionRequest): Promise<SignInAttempt> => {
    const name = limitedName(email);
    const address = limitedAddress(remoteAddress);
    return queries.run(() => database.execute(beginSignInOperation, { email, name, address, nowMs: clock.now() }));
  };

  /** Returns what the code uses up; undefined if it is wrong or missing. */
  const checkCode = (
    { user, totpSecret }: Candidate,
    code: string | undefined,
  ): Pick<SignIn, 'totpStep' | 'recoveryCodeHash'> | undefined => {
    if (totpSecret === null) return {};
    if (code === undefined) return undefined;
    const digits = code.replace(/\s/g, '');
    const totpStep = verifyTotp(open(secretKey, totpSecret, totpContext(user.id)), digits, clock.now());
    if (totpStep !== undefined) return { totpStep };
    return /^\d{6}$/.test(digits) ? undefined : { recoveryCodeHash: recoveryCodeHash(secretKey, code) };
  };

  const verify = (password: string, phc: string, isKnown: boolean): Promise<boolean> =>
    verifyPassword(normalPassword(password), phc, { ahead: isKnown, atMost: MAX_WAITING });

  /** Stores the session that a successful login starts. */
  const complete = async (
    user: User,
    request: SessionRequest,
    { signedInWith, ...used }: Omit<SignIn, 'session' | 'formerTokenHash'> & { signedInWith: SignInMethod },
  ): Promise<Result<SignedInUser>> => {
    const { session, token } = newSession(user.id, request, { signedInWith, nowMs: clock.now() });
    const former = sessionToken(request.headers);
    const formerTokenHash = former === undefined ? null : tokenHash(former);
    const changes = changesOf({ database, clock }, user, request);
    const isDone = await changes.execute(completeSignInOperation, { session, formerTokenHash, ...used });
    return isDone ? ok({ user, sessionId: session.id, token }) : WRONG;
  };

  return {
    complete,
    /** Applies the login limits to other login methods. */
    admit: async (email: string, request: SessionRequest): Promise<Result<TakenTokens>> => {
      const attempt = await begin(email, request);
      return 'waitMs' in attempt ? tooMany(attempt) : ok(attempt.taken);
    },
    withPassword: async (
      given: { email: string; password: string; code?: string | undefined },
      request: SessionRequest,
    ): Promise<Result<SignedInUser>> => {
      const attempt = await begin(normalEmail(given.email), request);
      if ('waitMs' in attempt) return tooMany(attempt);
      const { candidate, isKnown, taken } = attempt;
      const passwordHash = candidate?.passwordHash ?? UNKNOWN_USER_PASSWORD;
      const isRight = await verify(given.password, passwordHash, isKnown);
      const used = candidate === null ? undefined : checkCode(candidate, given.code);
      if (candidate === null || candidate.passwordHash === null || !isRight || used === undefined) return WRONG;
      const signedInWith = candidate.totpSecret === null ? 'password' : 'second-factor';
      return complete(candidate.user, request, { taken, passwordHash, signedInWith, ...used });
    },
    /** Verifies the current password of a logged-in user, under the same limits; returns its hash. */
    confirm: async (caller: UserCaller, password: string, request: SessionRequest): Promise<Result<string>> => {
      const attempt = await begin(caller.user.email, request);
      if ('waitMs' in attempt) return tooMany(attempt);
      const hash = await database.execute(passwordHashOperation, caller.user.id);
      const isRight = await verify(password, hash ?? UNKNOWN_USER_PASSWORD, attempt.isKnown);
      return isRight && hash !== null ? ok(hash) : WRONG;
    },
  };
}

export type SignInService = ReturnType<typeof createSignIn>;

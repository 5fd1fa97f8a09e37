/**
 * Sessions of logged-in users, identified by a cookie. A session ends after twelve hours without use, and after fourteen days in any case.
 * A cached session is at most 700 ms old: ending it on another node, a role changed there, a suspended account, and required two-factor
 * authentication take effect within a second, and changes by this process immediately.
 *
 * The cookie holds 256 random bits and is HttpOnly, SameSite=Strict, and, if the browser uses https, Secure; the database holds its
 * SHA-256.
 */
import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../accounts/accounts.ts';
import type { Actor } from '../base/actor.ts';
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import { basePathOf } from '../http/base-path.ts';
import { crossSiteFailure } from '../http/cross-site.ts';
import type { IdentifiedRequest, Sessions, SignedIn } from '../http/identify.ts';
import type { AnswerHeaders } from '../http/route.ts';
import type { Database } from '../storage/database.ts';
import { limitedAddress } from './limits.ts';
import { type FoundSession, findSessionOperation, touchSessionOperation } from './session-store.ts';
import { newSecret, tokenHash } from './tokens.ts';
import { missingFactor, type SignInMethod, twoFactorFailure } from './two-factor.ts';
import type { NewSession, Session, UserCaller } from './user.ts';

export const IDLE_MS = 12 * 3_600_000;
const LONGEST_MS = 14 * 86_400_000;
const FRESH_MS = 700;
const SESSIONS_KEPT = 10_000;
/** How often a use is recorded. */
const TOUCH_MS = 60_000;
const COOKIE = 'postrider_session';
const LONGEST_AGENT = 300;

export interface SessionOptions {
  database: Database;
  clock: Clock;
  log: Log;
  /** Read at each call: the port may be known only once the service listens. */
  readonly baseUrl: string;
}

export interface UserSessions extends Sessions<Caller> {
  /** Returns the user of this request, for calls that work with a session and without. */
  caller(request: IdentifiedRequest): Promise<Result<UserCaller>>;
  /** After the commit: removes one session, or all of a user or in an account, from this process's cache. */
  evictSession(id: string): void;
  evictUser(userId: string): void;
  evictAccount(accountId: string): void;
}

const UNAUTHORIZED = refuse(
  failure('UNAUTHORIZED', { message: 'The session does not exist or has ended. Sign in with POST /session.' }),
);
const SUSPENDED = refuse(failure('ACCOUNT_SUSPENDED'));

/** Returns the cookie of a request; undefined if it is missing, or there are several. */
export function sessionToken(headers: IncomingHttpHeaders): string | undefined {
  const found = cookiesOf(headers).filter(([name]) => name === COOKIE);
  return found.length === 1 && /^[0-9A-Za-z]{43}$/.test(found[0]![1]) ? found[0]![1] : undefined;
}

export function cookiesOf({ cookie = '' }: IncomingHttpHeaders): [name: string, value: string][] {
  return cookie.split(';').map((part) => {
    const at = part.indexOf('=');
    return [part.slice(0, Math.max(0, at)).trim(), part.slice(at + 1).trim()];
  });
}

/** The service as the browser reaches it: its public URL, and whether it uses https. */
export interface BrowserAddress {
  baseUrl: string;
  isOverHttps: boolean;
}

/** Returns the Set-Cookie header that stores the token of a session, or without a token, deletes the cookie. */
export function sessionCookie({ baseUrl, isOverHttps }: BrowserAddress, token: string | undefined): AnswerHeaders {
  const secure = isOverHttps ? '; Secure' : '';
  const basePath = basePathOf(baseUrl);
  const cookie = (at: string, value = ''): string => {
    const seconds = value === '' ? 0 : LONGEST_MS / 1000;
    return `${COOKIE}=${value}; Path=${at}; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure}`;
  };
  if (basePath === '') return { 'Set-Cookie': cookie('/', token) };
  // The browser may have a cookie for the root, from before the base URL had a path. It is deleted, because two cookies are refused.
  return { 'Set-Cookie': [cookie('/'), cookie(basePath, token)] };
}

/** Returns a session that starts now, and the value of its cookie. */
export function newSession(
  userId: string,
  { remoteAddress, headers }: { remoteAddress: string; headers: IncomingHttpHeaders },
  { signedInWith, nowMs }: { signedInWith: SignInMethod; nowMs: number },
): { session: NewSession; token: string } {
  const token = newSecret();
  const session: NewSession = {
    id: newId('ses', nowMs),
    tokenHash: tokenHash(token),
    userId,
    createdAt: nowMs,
    lastSeenAt: nowMs,
    expiresAt: nowMs + LONGEST_MS,
    address: limitedAddress(remoteAddress),
    userAgent: headers['user-agent']?.slice(0, LONGEST_AGENT) ?? null,
    signedInWith,
  };
  return { session, token };
}

function isActive(session: Session, nowMs: number): boolean {
  return nowMs < session.expiresAt && nowMs - session.lastSeenAt < IDLE_MS;
}

function userCallerOf({ user, session, hasSecondFactor }: FoundSession): UserCaller {
  const actor: Actor = { kind: 'user', id: user.id, name: user.email };
  const shown = { keyId: user.id, scope: 'full', mode: 'live' } as const;
  return {
    ...shown,
    actor,
    user,
    sessionId: session.id,
    signedInAt: session.createdAt,
    signedInWith: session.signedInWith,
    hasSecondFactor,
  };
}

function signedInOf(found: FoundSession, nowMs: number): SignedIn<Caller> {
  const user = userCallerOf(found);
  const { isOperator } = found.user;
  const signedIn: SignedIn<Caller> = { user: { ...user, isOperator } };
  if (found.member === null) return signedIn;
  const { role, account, supportAccessUntil } = found.member;
  const isSupport = supportAccessUntil !== undefined;
  if (isSupport && supportAccessUntil <= nowMs) return signedIn;
  const missing = account.twoFactorRequired ? missingFactor(user) : undefined;
  const callerIn: NonNullable<SignedIn<Caller>['member']>['callerIn'] = (mode) => {
    if (account.status !== 'active' && !isSupport) return SUSPENDED;
    if (missing !== undefined) return refuse(twoFactorFailure(missing));
    return ok({
      account,
      mode,
      scope: 'full',
      keyId: user.keyId,
      allowedSenders: [],
      allowedNetworks: [],
      actor: user.actor,
      role,
      isOperator,
    });
  };
  return { ...signedIn, member: { callerIn } };
}

export function createSessions(options: SessionOptions): UserSessions {
  const { database, clock, log } = options;
  const touched = new Map<string, number>();
  const cache = createFreshCache<{ digest: string; accountId: string | null }, FoundSession>({
    clock,
    maxAgeMs: FRESH_MS,
    limit: SESSIONS_KEPT,
    absentLimit: 0,
    read: async ({ digest, accountId }) =>
      (await database.execute(findSessionOperation, { tokenHash: Buffer.from(digest, 'base64'), accountId })) ??
      undefined,
  });

  /** Records in the background that the session was used. A lost update does no harm: the next request makes another. */
  const touch = ({ id, lastSeenAt }: Session, nowMs: number): void => {
    if (nowMs - Math.max(lastSeenAt, touched.get(id) ?? 0) < TOUCH_MS) return;
    touched.delete(id);
    touched.set(id, nowMs);
    if (touched.size > SESSIONS_KEPT) touched.delete(touched.keys().next().value as string);
    database.execute(touchSessionOperation, { id, nowMs }).catch((error: Error) => {
      touched.delete(id);
      log.warn({ error: error.message }, 'session activity not recorded');
    });
  };

  const find = async (request: IdentifiedRequest, accountId: string | null): Promise<Result<FoundSession>> => {
    const token = sessionToken(request.headers);
    if (token === undefined) return UNAUTHORIZED;
    const digest = hash('sha256', token, 'base64');
    const found = await cache.get(`${digest} ${accountId ?? ''}`, { digest, accountId });
    const nowMs = clock.now();
    if (found === undefined || !isActive(found.session, nowMs)) return UNAUTHORIZED;
    const crossSite = crossSiteFailure(request, options.baseUrl);
    if (crossSite !== undefined) return refuse(crossSite);
    touch(found.session, nowMs);
    return ok(found);
  };

  return {
    isGiven: (headers) => headers.cookie !== undefined && cookiesOf(headers).some(([name]) => name === COOKIE),
    signedIn: async (request, accountId) => {
      const found = await find(request, accountId?.slice(0, 64) ?? null);
      return found.ok ? ok(signedInOf(found.value, clock.now())) : found;
    },
    caller: async (request) => {
      const found = await find(request, null);
      return found.ok ? ok(userCallerOf(found.value)) : found;
    },
    evictSession: (id) => cache.evictWhere(({ session }) => session.id === id),
    evictUser: (userId) => cache.evictWhere(({ user }) => user.id === userId),
    evictAccount: (accountId) => cache.evictWhere(({ member }) => member?.account.id === accountId),
  };
}

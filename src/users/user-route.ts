/** What the routes of users share: what they need, how they are defined, and how a signed-in user is shown. */
import type { TSchema } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { failure, refuse } from '../base/failure.ts';
import { isOverHttps, isOwnOrigin } from '../http/cross-site.ts';
import { answer, defineRoute, type JsonAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import * as bodies from './bodies.ts';
import type { OidcSettings } from './oidc.ts';
import type { UserMail } from './passwords.ts';
import { profileOperation } from './session-store.ts';
import { type SessionOptions, sessionCookie, type UserSessions } from './sessions.ts';
import type { SignedInUser } from './sign-in.ts';
import type { User, UserCaller } from './user.ts';

/** Bodies of sign-ins are small, and many may come at once. */
export const SMALL_BODY = 20_000;

export interface UserRouteDeps extends SessionOptions {
  /** The service's key. */
  secretKey: Uint8Array;
  sessions: UserSessions;
  mail: UserMail;
  /** Where users may sign in too. */
  oidc?: OidcSettings | undefined;
}

/** A route whose caller is a user; the pipeline hands it one by its `auth`, whatever callers the other routes have. */
export function userRoute<B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<UserCaller, B, Q>,
): RouteDefinition<Caller> {
  return defineRoute(definition) as unknown as RouteDefinition<Caller>;
}

/** Whether a page of another site made the browser call; programs that are no browsers send no Origin. */
function isForeign(request: Pick<RouteRequest, 'headers' | 'isSecure'>, baseUrl: string): boolean {
  return request.headers.origin !== undefined && !isOwnOrigin(request, baseUrl);
}

const FOREIGN = refuse(failure('FORBIDDEN', { message: 'Sign in on the pages of this service.' }));
export const foreignRefusal = (request: Pick<RouteRequest, 'headers' | 'isSecure'>, baseUrl: string) =>
  isForeign(request, baseUrl) ? FOREIGN : undefined;

/** The user as GET /session shows them. */
export async function shownUser(
  { database, clock }: UserRouteDeps,
  user: User,
  sessionId: string,
): Promise<JsonAnswer> {
  const profile = await database.execute(profileOperation, { userId: user.id, sessionId, nowMs: clock.now() });
  return answer(bodies.signedInBody(user, sessionId, profile));
}

/** The answer of a sign-in, with the cookie. */
export async function signedInAnswer(
  deps: UserRouteDeps,
  signedIn: SignedInUser,
  request: Pick<RouteRequest, 'isSecure'>,
): Promise<JsonAnswer> {
  const shown = await shownUser(deps, signedIn.user, signedIn.sessionId);
  return {
    ...shown,
    headers: sessionCookie({ baseUrl: deps.baseUrl, isOverHttps: isOverHttps(request, deps.baseUrl) }, signedIn.token),
  };
}

/** What the user routes share: their dependencies, their definition, and the view of a logged-in user. */
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

/** Login bodies are small, and many may arrive at the same time. */
export const SMALL_BODY = 20_000;

export interface UserRouteDeps extends SessionOptions {
  /** The service's key. */
  secretKey: Uint8Array;
  sessions: UserSessions;
  mail: UserMail;
  /** The identity provider for login, if configured. */
  oidc?: OidcSettings | undefined;
}

/** Defines a route whose caller is a user. Its `access` makes sure of that, so the type of the caller can differ from other routes. */
export function userRoute<B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<UserCaller, B, Q>,
): RouteDefinition<Caller> {
  return defineRoute(definition) as unknown as RouteDefinition<Caller>;
}

/** Returns whether a page of another site made the browser call; clients other than browsers send no Origin. */
function isForeign(request: Pick<RouteRequest, 'headers' | 'isSecure'>, baseUrl: string): boolean {
  return request.headers.origin !== undefined && !isOwnOrigin(request, baseUrl);
}

const FOREIGN = refuse(failure('FORBIDDEN', { message: 'Sign in on the pages of this service.' }));
export const foreignRefusal = (request: Pick<RouteRequest, 'headers' | 'isSecure'>, baseUrl: string) =>
  isForeign(request, baseUrl) ? FOREIGN : undefined;

/** Returns the user as GET /session shows them. */
export async function shownUser(
  { database, clock }: UserRouteDeps,
  user: User,
  sessionId: string,
): Promise<JsonAnswer> {
  const profile = await database.execute(profileOperation, { userId: user.id, sessionId, nowMs: clock.now() });
  return answer(bodies.signedInBody(user, sessionId, profile));
}

/** Returns the response of a login, with the cookie. */
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

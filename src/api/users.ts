/**
 * Browser sessions: logging in and out, listing and ending sessions, and passwords. Memberships are in users-members.ts, second factors in
 * users-factors.ts.
 */
import type { Caller } from '../accounts/accounts.ts';
import { failure, invalid, refuse } from '../base/failure.ts';
import { isOverHttps } from '../http/cross-site.ts';
import { pageFields, pageOfWhole } from '../http/paging.ts';
import { answer, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema } from '../http/validate.ts';
import * as bodies from '../users/bodies.ts';
import { createPasswords } from '../users/passwords.ts';
import { endSessionOperation, sessionsOperation } from '../users/session-store.ts';
import { IDLE_MS, sessionCookie } from '../users/sessions.ts';
import { changesOf, createSignIn, type SessionRequest, type SignInService } from '../users/sign-in.ts';
import type { UserCaller } from '../users/user.ts';
import {
  foreignRefusal,
  SMALL_BODY,
  shownUser,
  signedInAnswer,
  type UserRouteDeps,
  userRoute,
} from '../users/user-route.ts';
import { totpRoutes } from './users-factors.ts';
import { memberRoutes, operatorMemberRoutes } from './users-members.ts';
import { noticeRoutes } from './users-notices.ts';
import { oidcRoutes } from './users-oidc.ts';
import { passkeyRoutes } from './users-passkeys.ts';
import { savedFilterRoutes } from './users-saved-filters.ts';
import { supportRoutes } from './users-support.ts';

/** A separate limit, so that a flood of logins does not delay other calls. */
const SIGN_INS_AT_ONCE = 2_000;

/** Returns every route of users. */
export function userRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const signIn = createSignIn(deps);
  return [
    ...signInRoutes(deps, signIn),
    ...sessionListRoutes(deps),
    ...passwordRoutes(deps, signIn),
    ...memberRoutes(deps),
    ...operatorMemberRoutes(deps),
    ...savedFilterRoutes(deps),
    ...noticeRoutes(deps),
    ...supportRoutes(deps),
    ...totpRoutes(deps),
    ...passkeyRoutes(deps, signIn),
    ...oidcRoutes(deps, signIn),
  ];
}

function signInRoutes(deps: UserRouteDeps, signIn: SignInService): RouteDefinition<Caller>[] {
  const common = { path: '/session', tag: 'session' } as const;
  return [
    userRoute({
      ...common,
      method: 'POST',
      access: { auth: 'none' },
      body: { schema: bodies.signInRequest, maxBytes: SMALL_BODY },
      load: { atOnce: SIGN_INS_AT_ONCE },
      operationId: 'signIn',
      summary: 'Sign in',
      description:
        'Sets the cookie postrider_session, which replaces an API key. A wrong email, password, or code gets the same response. Too many attempts are RATE_LIMITED.',
      response: { status: 200, schema: bodies.signedInSchema },
      refusals: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'],
      handle: async (request) => {
        const foreign = foreignRefusal(request, deps.baseUrl);
        if (foreign !== undefined) return foreign;
        const signedIn = await signIn.withPassword(request.body, request);
        return signedIn.ok ? signedInAnswer(deps, signedIn.value, request) : signedIn;
      },
    }),
    userRoute({
      ...common,
      method: 'GET',
      access: { auth: 'user' },
      operationId: 'getSession',
      summary: 'Get the logged-in user and their accounts',
      description:
        'Returns the accounts that you can name in X-Id, with your role in each. Accounts with support access come last.',
      response: { status: 200, schema: bodies.signedInSchema },
      handle: ({ caller }) => shownUser(deps, caller.user, caller.sessionId),
    }),
    userRoute({
      ...common,
      method: 'DELETE',
      access: { auth: 'user' },
      operationId: 'signOut',
      summary: 'Sign out',
      description: 'Ends the session on every node within a second.',
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        await endSession(deps, request.caller.sessionId, request);
        const cookie = sessionCookie(
          { baseUrl: deps.baseUrl, isOverHttps: isOverHttps(request, deps.baseUrl) },
          undefined,
        );
        return answer({ message: 'Signed out.' }, cookie);
      },
    }),
  ];
}

async function endSession(
  deps: UserRouteDeps,
  id: string,
  request: SessionRequest & { readonly caller: UserCaller },
): Promise<boolean> {
  const { user } = request.caller;
  const isEnded = await changesOf(deps, user, request).execute(endSessionOperation, { id, userId: user.id });
  deps.sessions.evictSession(id);
  return isEnded;
}

function sessionListRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  return [
    userRoute({
      method: 'GET',
      path: '/sessions',
      tag: 'session',
      access: { auth: 'user' },
      operationId: 'listSessions',
      summary: 'List your sessions, newest first',
      description: 'Returns the address, browser, and time of last use of each session.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(bodies.sessionSchema) },
      handle: async (request) => {
        const { user, sessionId } = request.caller;
        const nowMs = clock.now();
        const of = { userId: user.id, nowMs, idleSinceMs: nowMs - IDLE_MS };
        return pageOfWhole(request, {
          rows: await database.execute(sessionsOperation, of),
          order: 'descending',
          shape: ['ses_'],
          keyOf: ({ id }) => [id],
          show: (session) => bodies.sessionBody(session, sessionId),
        });
      },
    }),
    userRoute({
      method: 'DELETE',
      path: '/sessions/:id',
      tag: 'session',
      access: { auth: 'user' },
      operationId: 'endSession',
      summary: 'End a session of the logged-in user',
      description: 'Every node refuses the cookie of the session within a second.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) =>
        (await endSession(deps, request.params.id ?? '', request))
          ? answer({ message: 'Session ended.' })
          : refuse(failure('NOT_FOUND', { message: 'You have no session with this id.' })),
    }),
  ];
}

function passwordRoutes(deps: UserRouteDeps, signIn: SignInService): RouteDefinition<Caller>[] {
  const passwords = createPasswords(deps, signIn);
  return [
    userRoute({
      method: 'POST',
      path: '/password-reset',
      tag: 'session',
      access: { auth: 'none' },
      body: { schema: bodies.passwordResetRequest, maxBytes: SMALL_BODY },
      operationId: 'requestPasswordReset',
      summary: 'Request a password reset link',
      description:
        'Always returns 202, whether or not the address has a user. The link is sent by email and is valid for an hour. Without a verified domain the service sends no email: an operator uses postrider user reset-password.',
      response: { status: 202, schema: confirmationSchema },
      handle: (request) => {
        passwords.requestReset(request.body.email, request);
        return answer({ message: 'If a user has this email address, a link has been sent to it.' });
      },
    }),
    userRoute({
      method: 'PUT',
      path: '/password',
      tag: 'session',
      access: { auth: 'none' },
      body: { schema: bodies.passwordRequest, maxBytes: SMALL_BODY },
      operationId: 'setPassword',
      summary: 'Set your password',
      description:
        'With currentPassword and a session: every other session ends. With the token of a link (invitation, reset, first run): every session ends, and without a second factor a new one starts.',
      response: { status: 200, schema: bodies.signedInSchema },
      refusals: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED', 'CONFLICT'],
      handle: (request) => setPassword(deps, { signIn, passwords }, request),
    }),
  ];
}

interface PasswordBody {
  password: string;
  currentPassword?: string | undefined;
  token?: string | undefined;
}

async function setPassword(
  deps: UserRouteDeps,
  { signIn, passwords }: { signIn: SignInService; passwords: ReturnType<typeof createPasswords> },
  request: RouteRequest<UserCaller, PasswordBody, unknown>,
): Promise<RouteAnswer> {
  const { password, currentPassword, token } = request.body;
  if ((token === undefined) === (currentPassword === undefined))
    return refuse(invalid([{ field: '', message: 'must have either token or currentPassword' }]));
  if (token !== undefined) {
    const foreign = foreignRefusal(request, deps.baseUrl);
    if (foreign !== undefined) return foreign;
    const user = await passwords.setByLink(token, password, request);
    if (!user.ok) return user;
    deps.sessions.evictUser(user.value.id);
    if (user.value.hasTotp) return shownUser(deps, user.value, '');
    const signedIn = await signIn.complete(user.value, request, { taken: [], signedInWith: 'password' });
    return signedIn.ok ? signedInAnswer(deps, signedIn.value, request) : signedIn;
  }
  const caller = await deps.sessions.caller(request);
  if (!caller.ok) return caller;
  const changed = await passwords.change(caller.value, { currentPassword: currentPassword!, password }, request);
  if (!changed.ok) return changed;
  deps.sessions.evictUser(caller.value.user.id);
  return shownUser(deps, caller.value.user, caller.value.sessionId);
}

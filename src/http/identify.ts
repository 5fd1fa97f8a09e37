/**
 * Authenticates callers and checks their permissions: with an API key, or with the session of a logged-in user, which replaces a key on
 * every route that requires one. A key takes precedence. Users act with their role in the account that X-Id names; an account that they are
 * not a member of returns the same error as one that does not exist. Routes for operators accept the session of an operator or an operator
 * key (operator-key.ts), which no other route accepts.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure, invalid, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { isAllowedAddress } from '../net/networks.ts';
import {
  hasOperatorKey,
  isOperatorKey,
  OPERATOR_KEY_ELSEWHERE,
  OPERATOR_KEY_IN_API_KEY,
  OPERATOR_KEY_REFUSED,
  OPERATOR_UNAUTHORIZED,
  operatorKeyFailure,
  operatorKeyOf,
} from './operator-key.ts';
import {
  type CallerKey,
  LIVE_KEY_REQUIRED,
  MEMBER_ROLES,
  type MemberRole,
  type Method,
  type RouteAccess,
} from './route.ts';

/** The parts of a request that identify the caller. */
export interface IdentifiedRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** All values of each header: of a repeated Authorization, `headers` has only the first. */
  readonly headersDistinct?: NodeJS.Dict<string[]>;
  /** Whether the client used TLS, with this service or with a trusted proxy. */
  readonly isSecure?: boolean | undefined;
}

/** Who can call a route; the method decides the default role. */
export interface Access extends RouteAccess {
  method: Method;
}

/** Authenticates a caller with a key; 401, or 403 for the account. */
export type Authenticate<C> = (headers: IncomingHttpHeaders) => Result<C> | Promise<Result<C>>;

export interface SignedIn<C> {
  /** The caller of routes for users and operators. */
  user: CallerKey & { isOperator: boolean };
  /** The user's membership in the requested account; undefined if none is requested or the user is not a member. */
  member?: { callerIn(mode: Mode): Result<C> };
}

export interface Sessions<C> {
  /** Whether the request has the cookie of a session at all. */
  isGiven(headers: IncomingHttpHeaders): boolean;
  /** 401 if the session is invalid, 403 if a page of another site may have made the call. */
  signedIn(request: IdentifiedRequest, accountId?: string): Result<SignedIn<C>> | Promise<Result<SignedIn<C>>>;
}

export interface IdentifyOptions<C> {
  authenticate: Authenticate<C>;
  /** Absent if logins are not available; the cookie is then ignored. */
  sessions?: Sessions<C> | undefined;
  /** Authenticates an operator key; absent if the routes for operators are not available. */
  operatorKeys?: ((key: string) => Result<CallerKey> | Promise<Result<CallerKey>>) | undefined;
}

/** Returns the minimum role for the call: calls that change something need more than `viewer`. */
export function roleFor({ method, role }: Pick<Access, 'method' | 'role'>): MemberRole {
  return role ?? (method === 'GET' ? 'viewer' : 'member');
}

const UNAUTHORIZED = refuse(failure('UNAUTHORIZED'));
const PEOPLE_ONLY = failure('FORBIDDEN', {
  message: 'Only a person who is signed in to the portal can make this call, not an API key.',
});

/** Returns the caller of a route that requires one, or 401, 403, or 404 for the account. */
export function createIdentify<C extends CallerKey>(
  options: IdentifyOptions<C>,
): (request: IdentifiedRequest, access: Access) => Promise<Result<CallerKey>> {
  const { authenticate, sessions, operatorKeys } = options;

  const byUser = async (request: IdentifiedRequest, access: Access): Promise<Result<CallerKey>> => {
    const signedIn = sessions === undefined ? UNAUTHORIZED : await sessions.signedIn(request);
    if (!signedIn.ok) return signedIn;
    const { user } = signedIn.value;
    if (access.auth === 'operator' && !user.isOperator)
      return refuse(failure('FORBIDDEN', { message: 'Only operators of this installation can make this call.' }));
    return { ok: true, value: user };
  };

  const byOperator = async (request: IdentifiedRequest, access: Access): Promise<Result<CallerKey>> => {
    const { headers } = request;
    if (isOperatorKey(single(headers, 'x-api-key'))) return OPERATOR_KEY_IN_API_KEY;
    const hasSession = sessions?.isGiven(headers) === true;
    const key = operatorKeyOf(headers, hasSession);
    const isRepeated = (request.headersDistinct?.authorization?.length ?? 1) > 1;
    if (key !== undefined && operatorKeys !== undefined) return isRepeated ? OPERATOR_KEY_REFUSED : operatorKeys(key);
    return hasSession ? byUser(request, access) : OPERATOR_UNAUTHORIZED;
  };

  const byMember = async (request: IdentifiedRequest, access: Access): Promise<Result<CallerKey>> => {
    const { accountId, mode } = accountOf(request, access);
    const signedIn = await sessions!.signedIn(request, accountId);
    if (!signedIn.ok) return signedIn;
    const field = (name: string): string => (access.accountInQuery ? name : name === 'account' ? 'X-Id' : 'X-Mode');
    if (accountId === undefined)
      return refuse(invalid([{ field: field('account'), message: 'must be the id of the account for this call' }]));
    if (mode !== 'live' && mode !== 'sandbox')
      return refuse(invalid([{ field: field('mode'), message: 'must be live or sandbox' }]));
    const { member } = signedIn.value;
    if (member === undefined) return refuse(failure('NOT_FOUND', { message: 'No account has this id.' }));
    return member.callerIn(mode);
  };

  return async (request, access) => {
    const { headers } = request;
    if (access.auth === 'operator') return byOperator(request, access);
    if (hasOperatorKey(headers)) return OPERATOR_KEY_ELSEWHERE;
    if (access.auth !== 'key') return byUser(request, access);
    const isByKey = headers['x-api-key'] !== undefined || !sessions?.isGiven(headers);
    return isByKey ? authenticate(headers) : byMember(request, access);
  };
}

/** Returns why a caller with this address cannot use its key. The message does not name the networks, because the key may be stolen. */
export function refusedAddress({ allowedNetworks = [] }: CallerKey, address: string): Failure | undefined {
  if (isAllowedAddress(address, allowedNetworks)) return undefined;
  const message = `This API key cannot be used from the address ${address}. Call from one of its allowedNetworks, or add the address to them.`;
  return failure('FORBIDDEN', { message });
}

/** Returns why an authenticated caller is not allowed to make this call. */
export function notPermitted({ scope, mode, role, operatorScopes }: CallerKey, access: Access): Failure | undefined {
  if (operatorScopes !== undefined) return operatorKeyFailure(operatorScopes, access);
  if (access.auth !== 'key') return undefined;
  if (access.scope !== 'send' && scope !== 'full') return failure('FORBIDDEN');
  // Keys have no role.
  if (access.peopleOnly && role === undefined) return PEOPLE_ONLY;
  const least = roleFor(access);
  if (role !== undefined && MEMBER_ROLES.indexOf(role) < MEMBER_ROLES.indexOf(least)) {
    const message = `This call requires the role ${least}. Your role in this account is ${role}.`;
    return failure('FORBIDDEN', { message });
  }
  return access.changesShared && mode === 'sandbox' ? LIVE_KEY_REQUIRED : undefined;
}

/** Event streams also accept the account in the query, because the browser's EventSource cannot set headers. */
function accountOf(
  { url = '', headers }: IdentifiedRequest,
  access: Access,
): { accountId: string | undefined; mode: string } {
  const inQuery = access.accountInQuery ? new URL(url, 'http://localhost').searchParams : undefined;
  return {
    accountId: inQuery?.get('account') ?? single(headers, 'x-id'),
    mode: inQuery?.get('mode') ?? single(headers, 'x-mode') ?? 'live',
  };
}

/** Returns the value of a header; Set-Cookie alone is a list. */
function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

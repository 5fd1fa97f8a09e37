/**
 * Who makes a call, and whether they may: with an API key, or with the session of a signed-in user, which stands for a key on every
 * route that takes one. A key wins where both are there. Users call as what they are in the account that X-Id names: to one
 * they are no member of it answers as if it did not exist.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure, invalid, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { type CallerKey, MEMBER_ROLES, type MemberRole, NO_LIVE_POWER, type RouteDefinition } from './route.ts';

/** What of a request says who makes it. */
export interface IdentifiedRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Whether the client used TLS, with this service or with a trusted proxy. */
  readonly isSecure?: boolean | undefined;
}

/** What of a route says who may call it. */
export type Access = Pick<RouteDefinition, 'method' | 'auth' | 'role' | 'scope' | 'changesShared' | 'accountInQuery'>;

/** Who calls with a key, or 401 and 403 of the account. */
export type Authenticate<C> = (headers: IncomingHttpHeaders) => Result<C> | Promise<Result<C>>;

export interface SignedIn<C> {
  /** The caller of routes for users and operators. */
  user: CallerKey & { isOperator: boolean };
  /** What the user is in the account asked for; undefined where none is asked for, and of one the user is no member of. */
  member?: { callerIn(mode: Mode): Result<C> };
}

export interface Sessions<C> {
  /** Whether the request has the cookie of a session at all. */
  isGiven(headers: IncomingHttpHeaders): boolean;
  /** 401 where the session is none, 403 where another site's page may have made the call. */
  signedIn(request: IdentifiedRequest, accountId?: string): Result<SignedIn<C>> | Promise<Result<SignedIn<C>>>;
}

export interface IdentifyOptions<C> {
  authenticate: Authenticate<C>;
  /** Absent where nobody signs in: then the cookie means nothing. */
  sessions?: Sessions<C> | undefined;
}

/** The least role that a member needs for the call: what changes something is not for those who only look on. */
export function roleFor({ method, role }: Pick<RouteDefinition, 'method' | 'role'>): MemberRole {
  return role ?? (method === 'GET' ? 'viewer' : 'member');
}

const UNAUTHORIZED = refuse(failure('UNAUTHORIZED'));

/** The caller of a route that asks for one, or 401, 403, and 404 of an account. */
export function createIdentify<C extends CallerKey>(
  options: IdentifyOptions<C>,
): (request: IdentifiedRequest, access: Access) => Promise<Result<CallerKey>> {
  const { authenticate, sessions } = options;

  const byUser = async (request: IdentifiedRequest, access: Access): Promise<Result<CallerKey>> => {
    const signedIn = sessions === undefined ? UNAUTHORIZED : await sessions.signedIn(request);
    if (!signedIn.ok) return signedIn;
    const { user } = signedIn.value;
    if (access.auth === 'operator' && !user.isOperator)
      return refuse(failure('FORBIDDEN', { message: 'Only operators of this installation can make this call.' }));
    return { ok: true, value: user };
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
    if (access.auth !== 'key') return byUser(request, access);
    const { headers } = request;
    const isByKey = headers['x-api-key'] !== undefined || !sessions?.isGiven(headers);
    return isByKey ? authenticate(headers) : byMember(request, access);
  };
}

/** Why a caller who is known may not make this call. */
export function notPermitted({ scope, mode, role }: CallerKey, access: Access): Failure | undefined {
  if (access.auth !== 'key') return undefined;
  if (access.scope !== 'send' && scope !== 'full') return failure('FORBIDDEN');
  const least = roleFor(access);
  if (role !== undefined && MEMBER_ROLES.indexOf(role) < MEMBER_ROLES.indexOf(least)) {
    const message = `This call requires the role ${least}. Your role in this account is ${role}.`;
    return failure('FORBIDDEN', { message });
  }
  return access.changesShared && mode === 'sandbox' ? NO_LIVE_POWER : undefined;
}

/** Of a stream of events also from the query: the browser's EventSource sets no headers. */
function accountOf(
  { url = '', headers }: IdentifiedRequest,
  access: Access,
): { accountId: string | undefined; mode: string } {
  const inQuery = access.accountInQuery ? new URL(url, 'http://localhost').searchParams : undefined;
  const single = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === 'string' ? value : undefined;
  };
  return {
    accountId: inQuery?.get('account') ?? single('x-id'),
    mode: inQuery?.get('mode') ?? single('x-mode') ?? 'live',
  };
}

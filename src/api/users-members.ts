/**
 * Members of an account: listing, inviting, changing a role, removing, and requiring two-factor authentication. An invitation is sent as the service's own mail once an account has
 * verified a domain; until then the response contains its link. A user who already has a password is added immediately. An account is never
 * shared with an address that was not confirmed.
 */
import type { TSchema } from 'typebox';
import { accountOperation, type Caller } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Failure, failure, invalid, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { type PageQuery, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import {
  answer,
  type CallerKey,
  defineRoute,
  type MemberRole,
  type RouteAnswer,
  type RouteDefinition,
  type RouteRequest,
} from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema } from '../http/validate.ts';
import { parseAddress } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import * as bodies from '../users/bodies.ts';
import { limitedName } from '../users/limits.ts';
import {
  changeRoleOperation,
  type Invited,
  inviteOperation,
  type MemberChanged,
  membersOperation,
  removeMemberOperation,
} from '../users/member-store.ts';
import { sendsMail } from '../users/passwords.ts';
import { normalEmail, tooMany } from '../users/sign-in.ts';
import { linkOf, newSecret, tokenRow } from '../users/tokens.ts';
import { missingFactor, ownFactorFailure } from '../users/two-factor.ts';
import { requireTwoFactorOperation } from '../users/two-factor-store.ts';
import type { UserRouteDeps } from '../users/user-route.ts';

const MEMBERS_AT_MOST = 200;

const route = <B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<Caller, B, Q>,
): RouteDefinition<Caller> => defineRoute(definition);

const UNKNOWN_ACCOUNT = refuse(failure('NOT_FOUND', { message: 'No account has this id.' }));

const REFUSALS: Record<Exclude<Invited['outcome'], 'invited' | 'added' | 'too-often'>, Failure> = {
  'member-already': failure('CONFLICT', {
    message: 'This user is already a member of the account. Change the role instead.',
  }),
  unproven: failure('CONFLICT', {
    message: 'This address has not been confirmed by email. Ask your operator to add the user.',
  }),
  full: failure('LIMIT_REACHED', {
    message: `The account has reached its limit of ${MEMBERS_AT_MOST} users. Remove one first.`,
  }),
};

async function memberPage(
  database: Database,
  accountId: string,
  request: { readonly url: string; readonly query: PageQuery },
) {
  const page = readPage(request.query, ['usr_']);
  if (!page.ok) return page;
  const before = (page.value.after?.[0] as string | undefined) ?? null;
  const rows = await database.execute(membersOperation, { accountId, before, limit: page.value.limit + 1 });
  return pageAnswer(request, { page: page.value, rows, keyOf: ({ userId }) => [userId], show: bodies.memberBody });
}

/** The users of any account, for operators. */
export function operatorMemberRoutes({ database }: Pick<UserRouteDeps, 'database'>): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/operator/accounts/:id/users',
      tag: 'operator',
      access: { auth: 'operator' },
      operationId: 'listUsersOfAccount',
      summary: 'List the users of an account, newest first',
      description: 'Like GET /users, for any account.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(bodies.memberSchema) },
      refusals: ['NOT_FOUND'],
      handle: async (request: RouteRequest<CallerKey, undefined, PageQuery>) => {
        const account = await database.execute(accountOperation, request.params.id ?? '');
        return account === null ? UNKNOWN_ACCOUNT : memberPage(database, account.id, request);
      },
    }) as unknown as RouteDefinition<Caller>,
  ];
}

export function memberRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  return [
    route({
      method: 'GET',
      path: '/users',
      tag: 'users',
      access: { auth: 'key' },
      operationId: 'listUsers',
      summary: 'List the users of the account, newest first',
      description: 'Returns each user with the role in this account, and whether the user has set a password.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(bodies.memberSchema) },
      handle: (request) => memberPage(database, request.caller.account.id, request),
    }),
    route({
      method: 'POST',
      path: '/users',
      tag: 'users',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'inviteUser',
      summary: 'Invite a user to the account',
      description:
        'Sends an email with a link to set a password; a user who has one is added immediately. Without a verified domain the service sends no email, and the response contains inviteUrl. The default role is member.',
      body: { schema: bodies.inviteRequest },
      refusals: ['CONFLICT', 'LIMIT_REACHED', 'RATE_LIMITED'],
      response: { status: 201, schema: bodies.invitedSchema },
      handle: (request) => invite(deps, request),
    }),
    route({
      method: 'PATCH',
      path: '/users/:id',
      tag: 'users',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'changeUserRole',
      summary: 'Change the role of a user in the account',
      description: 'Applies immediately, on other nodes within a second. The last owner cannot be demoted.',
      body: { schema: bodies.roleRequest },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: bodies.memberSchema },
      handle: async (request) => {
        const userId = request.params.id ?? '';
        const change = { accountId: request.caller.account.id, userId, role: request.body.role };
        const changed = await requestedChanges(database, request, clock.now()).execute(changeRoleOperation, change);
        deps.sessions.evictUser(userId);
        return changedAnswer(changed, (member) => bodies.memberBody(member));
      },
    }),
    route({
      method: 'DELETE',
      path: '/users/:id',
      tag: 'users',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'removeUser',
      summary: 'Remove a user from the account',
      description: 'A user without any other account is deleted with all sessions. The last owner cannot be removed.',
      refusals: ['CONFLICT'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        const membership = { accountId: request.caller.account.id, userId: request.params.id ?? '' };
        const { userId } = membership;
        const changes = requestedChanges(database, request, clock.now());
        const removed = await changes.execute(removeMemberOperation, membership);
        deps.sessions.evictUser(userId);
        return changedAnswer(removed, () => ({ message: 'User removed from the account.' }));
      },
    }),
    route({
      method: 'PUT',
      path: '/account/two-factor',
      tag: 'users',
      access: { auth: 'key', role: 'owner', changesShared: true, peopleOnly: true },
      operationId: 'requireTwoFactor',
      summary: 'Require two-factor authentication of all users of the account',
      description:
        'Every call of a session without a second factor is then refused with 403, except calls about the session and its user. Applies immediately, on other nodes within a second. Returns 409 if your own session has no second factor. API keys are not affected.',
      body: { schema: bodies.twoFactorRequirement },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: bodies.twoFactorRequirement },
      handle: async (request) => {
        const { required } = request.body;
        const owner = await deps.sessions.caller(request);
        if (!owner.ok) return owner;
        const missing = missingFactor(owner.value);
        if (required && missing !== undefined) return refuse(ownFactorFailure(missing));
        const accountId = request.caller.account.id;
        const changes = requestedChanges(database, request, clock.now());
        await changes.execute(requireTwoFactorOperation, { accountId, required });
        deps.sessions.evictAccount(accountId);
        return answer({ required });
      },
    }),
  ];
}

function changedAnswer(changed: MemberChanged, show: (member: Exclude<MemberChanged, string>) => unknown): RouteAnswer {
  if (changed === 'unknown') return refuse(failure('NOT_FOUND', { message: 'No user of this account has this id.' }));
  if (changed !== 'last-owner') return answer(show(changed));
  const message = 'This is the last owner of the account. Make another user an owner first.';
  return refuse(failure('CONFLICT', { message }));
}

async function invite(
  deps: UserRouteDeps,
  request: RouteRequest<Caller, { email: string; role?: MemberRole | undefined }, unknown>,
): Promise<RouteAnswer> {
  const { database, clock } = deps;
  const { caller } = request;
  const { email: given, role = 'member' } = request.body;
  const address = parseAddress(normalEmail(given));
  if (!address.ok || address.value.name !== '')
    return refuse(invalid([{ field: 'email', message: 'must be an email address, such as ann@example.com' }]));
  const email = address.value.address.toLowerCase();
  const nowMs = clock.now();
  const secret = newSecret();
  const byMail = (await sendsMail(deps)) && (await deps.mail.canSendTo(email));
  const userId = newId('usr', nowMs);
  const invited = await requestedChanges(database, request, nowMs).execute(inviteOperation, {
    accountId: caller.account.id,
    role,
    name: limitedName(email),
    nowMs,
    mayHaveAtMost: MEMBERS_AT_MOST,
    byOperator: caller.isOperator === true,
    user: { id: userId, email, emailVerified: 0, isOperator: 0, passwordHash: null, createdAt: nowMs },
    token: { ...tokenRow(secret, { purpose: 'invitation', byMail, nowMs }), userId },
  });
  if (invited.outcome === 'too-often') return tooMany(invited);
  if (!('member' in invited)) return refuse(REFUSALS[invited.outcome]);
  const isNew = invited.outcome === 'invited';
  deps.sessions.evictUser(invited.member.userId);
  const link = isNew ? linkOf(deps.baseUrl, 'invitation', secret) : `${deps.baseUrl}/`;
  if (byMail) await deps.mail.sendTo({ to: email, ...invitation(caller, link, isNew) });
  return answer({ ...bodies.memberBody(invited.member), ...(isNew && !byMail ? { inviteUrl: link } : {}) });
}

function invitation({ account, actor }: Caller, link: string, isNew: boolean): { subject: string; text: string } {
  const who = actor.kind === 'user' ? actor.name : 'An account owner';
  const what = isNew
    ? 'Set a password to accept the invitation. The link works once and expires in 7 days:'
    : 'Sign in to open the account:';
  return {
    subject: 'Invitation to a Postrider account',
    text: [`${who} invited you to the account "${account.name}" on Postrider.`, '', what, '', link, ''].join('\n'),
  };
}

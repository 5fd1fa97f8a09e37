/**
 * Support access: an operator's session reads an account for an hour with the role viewer. The start and the end are recorded in the
 * account's audit log, where its owners see them.
 */
import type { Caller } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { answer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { confirmationSchema, named } from '../http/validate.ts';
import { operatorChanges } from '../operator/operator.ts';
import { endSupportAccessOperation, startSupportAccessOperation } from '../users/support-store.ts';
import { type UserRouteDeps, userRoute } from '../users/user-route.ts';

const SUPPORT_ACCESS_MS = 3_600_000;

const supportAccessSchema = named('SupportAccess', {
  expiresAt: Type.String({ format: 'date-time', description: 'When the access expires.' }),
});

const REFUSALS = {
  unknown: refuse(failure('NOT_FOUND', { message: 'The account does not exist.' })),
  member: refuse(
    failure('CONFLICT', { message: 'You are a member of this account and can read it without support access.' }),
  ),
};

export function supportRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const { clock, sessions } = deps;
  const common = {
    path: '/operator/accounts/:id/support-access',
    tag: 'operator',
    // Support access belongs to a session.
    access: { auth: 'operator', peopleOnly: true },
  } as const;
  return [
    userRoute({
      ...common,
      method: 'POST',
      operationId: 'startSupportAccess',
      summary: 'Start support access: read an account for 1 hour',
      description:
        'Your session can read the account that X-Id names, with the role viewer. The access ends after an hour, when you sign out, or with DELETE. It is recorded in the audit log of the account.',
      response: { status: 201, schema: supportAccessSchema },
      refusals: ['NOT_FOUND', 'CONFLICT'],
      handle: async (request) => {
        const { caller } = request;
        const accountId = request.params.id ?? '';
        const untilMs = clock.now() + SUPPORT_ACCESS_MS;
        const access = { sessionId: caller.sessionId, userId: caller.user.id, accountId, untilMs };
        const outcome = await operatorChanges(deps, request, accountId).execute(startSupportAccessOperation, access);
        if (outcome !== 'started') return REFUSALS[outcome];
        sessions.evictSession(caller.sessionId);
        return answer({ expiresAt: iso(untilMs) });
      },
    }),
    userRoute({
      ...common,
      method: 'DELETE',
      operationId: 'endSupportAccess',
      summary: 'End support access to an account',
      description: 'Takes effect immediately, on other nodes within a second.',
      response: { status: 200, schema: confirmationSchema },
      refusals: ['NOT_FOUND'],
      handle: async (request) => {
        const { sessionId } = request.caller;
        const accountId = request.params.id ?? '';
        const isEnded = await operatorChanges(deps, request, accountId).execute(endSupportAccessOperation, {
          sessionId,
          accountId,
        });
        sessions.evictSession(sessionId);
        return isEnded
          ? answer({ message: 'Support access ended.' })
          : refuse(failure('NOT_FOUND', { message: 'You have no support access to this account.' }));
      },
    }),
  ];
}

/**
 * An operator looks at an account: for an hour the session reads it as a viewer would, and changes nothing. Who looked and when stands in the
 * audit log of the account, where its owners see it.
 */
import { Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { changedBy } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { answer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { confirmationSchema, named } from '../http/validate.ts';
import type { Database } from '../storage/database.ts';
import { endLookOperation, lookOperation } from './look-store.ts';
import type { UserCaller } from './user.ts';
import { type UserRouteDeps, userRoute } from './user-route.ts';

const LOOK_MS = 3_600_000;

const lookSchema = named('Look', {
  expiresAt: Type.String({ format: 'date-time', description: 'When it ends by itself.' }),
});

const REFUSALS = {
  unknown: refuse(failure('NOT_FOUND', { message: 'There is no such account.' })),
  member: refuse(failure('CONFLICT', { message: 'You are in this account already.' })),
};

type LookRequest = Pick<RouteRequest<UserCaller>, 'caller' | 'params' | 'remoteAddress' | 'requestId'>;

export function lookRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const { clock, sessions } = deps;
  const common = { path: '/operator/accounts/:id/look', tag: 'operator', auth: 'operator' } as const;
  return [
    userRoute({
      ...{ ...common, method: 'POST' },
      operationId: 'lookAtAccount',
      summary: 'Look at an account, read-only, for an hour',
      description:
        'Your session then reads the account that X-Id names, as a viewer. It ends by time, by signing out, and by DELETE. The account sees in its audit log who looked.',
      response: { status: 201, schema: lookSchema },
      refusals: ['NOT_FOUND', 'CONFLICT'],
      handle: async (request) => {
        const { caller } = request;
        const accountId = request.params.id ?? '';
        const untilMs = clock.now() + LOOK_MS;
        const look = { sessionId: caller.sessionId, userId: caller.user.id, accountId, untilMs };
        const outcome = await changesOf(deps, request, accountId).execute(lookOperation, look);
        if (outcome !== 'looks') return REFUSALS[outcome];
        sessions.evictSession(caller.sessionId);
        return answer({ expiresAt: iso(untilMs) });
      },
    }),
    userRoute({
      ...{ ...common, method: 'DELETE' },
      operationId: 'endLook',
      summary: 'Look at an account no more',
      description: 'In force at once, on other nodes within a second.',
      response: { status: 200, schema: confirmationSchema },
      refusals: ['NOT_FOUND'],
      handle: async (request) => {
        const { sessionId } = request.caller;
        const accountId = request.params.id ?? '';
        const isEnded = await changesOf(deps, request, accountId).execute(endLookOperation, { sessionId, accountId });
        sessions.evictSession(sessionId);
        return isEnded
          ? answer({ message: 'You do not look at this account any more.' })
          : refuse(failure('NOT_FOUND', { message: 'You do not look at this account.' }));
      },
    }),
  ];
}

/** In the name of the operator, with the row in the log of the account. */
function changesOf(
  { database, clock }: UserRouteDeps,
  { caller, remoteAddress, requestId }: LookRequest,
  accountId: string,
): Database {
  const { actor } = caller;
  return changedBy(database, {
    ...{ actor, accountId, mode: null, atMs: clock.now() },
    ...{ address: remoteAddress, requestId },
  });
}

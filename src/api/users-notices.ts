/** Which users of an account receive which notices: everyone sees it, and each user chooses their own. */
import type { Caller } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { failure, refuse } from '../base/failure.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import * as bodies from '../users/bodies.ts';
import { chooseNoticesOperation, noticeContactsOperation } from '../users/notice-store.ts';
import type { UserRouteDeps } from '../users/user-route.ts';

const NO_USER = failure('FORBIDDEN', { message: 'Only users of the account receive its notices.' });

export function noticeRoutes({ database, clock }: UserRouteDeps): RouteDefinition<Caller>[] {
  const common = { path: '/account/notices', tag: 'users', access: { auth: 'key' } } as const;
  const noticesAnswer = async ({ account, actor }: Caller): Promise<RouteAnswer> =>
    answer(bodies.noticesBody(await database.execute(noticeContactsOperation, account.id), actor.id));
  return [
    defineRoute<Caller>({
      ...common,
      method: 'GET',
      operationId: 'getNotices',
      summary: 'List the recipients of each kind of notice',
      description:
        'Owners and members receive every kind that they did not turn off; viewers receive the kinds that they turned on. If mail can reach none of the users who receive a kind, the operators receive it.',
      response: { status: 200, schema: bodies.noticesSchema },
      handle: ({ caller }) => noticesAnswer(caller),
    }),
    defineRoute<Caller, typeof bodies.noticesRequest>({
      ...common,
      method: 'PATCH',
      access: { auth: 'key', role: 'viewer', changesShared: true, peopleOnly: true },
      operationId: 'chooseNotices',
      summary: 'Choose which notices you receive by email',
      description:
        'Changes the given kinds for the logged-in user in this account, from the next notice on. Other users choose their own.',
      body: { schema: bodies.noticesRequest },
      response: { status: 200, schema: bodies.noticesSchema },
      handle: async (request) => {
        const { caller, body: choices } = request;
        const change = { accountId: caller.account.id, userId: caller.actor.id, choices };
        const isChanged = await requestedChanges(database, request, clock.now()).execute(
          chooseNoticesOperation,
          change,
        );
        return isChanged ? noticesAnswer(caller) : refuse(NO_USER);
      },
    }),
  ];
}

/** /operator/approvals: requests for a larger email size, with the history of the account, and the decision on each. */
import type { TSchema } from 'typebox';
import { type Caller, decideApprovalOperation } from '../accounts/accounts.ts';
import { failure, refuse } from '../base/failure.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, type CallerKey, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, oneOf } from '../http/validate.ts';
import { approvalBody, approvalSchema, rejectionRequest } from '../operator/bodies.ts';
import { type OperatorRouteDeps, operatorChanges, operatorRoute } from '../operator/operator-route.ts';
import { type ApprovalPage, approvalPageOperation } from '../operator/store.ts';

const DAY_MS = 86_400_000;
const HISTORY_DAYS = 30;

const UNKNOWN = refuse(failure('NOT_FOUND', { message: 'No request has this id.' }));

export function approvalRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const read = (page: Omit<ApprovalPage, 'sinceMs'>) => {
    const nowMs = clock.now();
    const sinceMs = nowMs - (nowMs % DAY_MS) - HISTORY_DAYS * DAY_MS;
    return database.execute(approvalPageOperation, { ...page, sinceMs });
  };
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/approvals',
      operationId: 'listApprovalRequests',
      summary: 'List requests for a larger email size of all accounts, newest first',
      description: 'Each with the history of the account: age, mail and rates of 30 days, earlier requests.',
      query: closed({
        status: Type.Optional(oneOf(['pending', 'approved', 'rejected'], { description: 'Requests of this status.' })),
        ...pageFields,
      }),
      response: { status: 200, schema: Type.Array(approvalSchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'apr_',
          read: (page) => read({ id: null, status: request.query.status ?? null, ...page }),
          show: approvalBody,
        }),
    }),
    ...decisionRoutes(deps, read),
  ];
}

function decisionRoutes(
  deps: OperatorRouteDeps,
  read: (page: Omit<ApprovalPage, 'sinceMs'>) => Promise<Parameters<typeof approvalBody>[0][]>,
): RouteDefinition<Caller>[] {
  const decide = async (
    request: RouteRequest<CallerKey, unknown, unknown>,
    decision: { status: 'approved' | 'rejected'; reason: string | null },
  ): Promise<RouteAnswer> => {
    const id = request.params.id ?? '';
    const page = { id, status: null, before: null, limit: 1 };
    const [requested] = await read(page);
    if (requested === undefined) return UNKNOWN;
    const { accountId } = requested;
    const changes = operatorChanges(deps, request, accountId);
    const decided = await changes.execute(decideApprovalOperation, { id, ...decision, nowMs: deps.clock.now() });
    if (decided === null) return UNKNOWN;
    if (!decided.decided)
      return refuse(failure('CONFLICT', { message: `The request is already ${decided.approval.status}.` }));
    deps.callers.evictAccount(accountId);
    deps.logins.evictAccount(accountId);
    return answer(approvalBody((await read(page))[0]!));
  };
  const common = {
    response: { status: 200, schema: approvalSchema as TSchema },
    refusals: ['NOT_FOUND', 'CONFLICT'],
  } as const;
  return [
    operatorRoute({
      ...common,
      method: 'POST',
      path: '/operator/approvals/:id/approve',
      operationId: 'approveRequest',
      summary: 'Approve a larger email size',
      description: 'Applies immediately; a larger size that the account already has is kept.',
      handle: (request) => decide(request, { status: 'approved', reason: null }),
    }),
    operatorRoute({
      ...common,
      method: 'POST',
      path: '/operator/approvals/:id/reject',
      operationId: 'rejectRequest',
      summary: 'Reject a larger email size',
      description: 'The account can read the reason.',
      body: { schema: rejectionRequest },
      handle: (request) => decide(request, { status: 'rejected', reason: request.body.reason.trim() }),
    }),
  ];
}

/**
 * GET and POST /approvals: an account asks for emails above the standard size and sees what became of it. Deciding is the
 * operator's, and has no place on this surface: no account approves itself.
 */
import { Type } from 'typebox';
import type { Clock } from '../base/clock.ts';
import { iso } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { refuse } from '../base/result.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import type { Database } from '../storage/database.ts';
import { type Caller, MAXIMUM_EMAIL_BYTES, STANDARD_EMAIL_BYTES } from './account.ts';
import { type Approval, approvalsOperation, askApprovalOperation } from './approval-store.ts';

const MAXIMUM_PENDING = 100;

const requestedEmailBytes = Type.Integer({
  minimum: STANDARD_EMAIL_BYTES + 1,
  maximum: MAXIMUM_EMAIL_BYTES,
  description: 'Size of a complete email that the account wants to send.',
});
const reason = Type.String({
  minLength: 1,
  maxLength: 2_000,
  pattern: '^(?=[\\s\\S]*\\S)[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$',
  description: 'what it is for, in words, for the operator who decides',
});

const approvalSchema = named('Approval', {
  approvalId: Type.String(),
  requestedEmailBytes: Type.Integer(),
  reason: Type.String(),
  status: oneOf(['pending', 'approved', 'rejected']),
  decisionReason: Type.Optional(Type.String()),
  createdAt: Type.String({ format: 'date-time' }),
});

/** An approval as the API shows it. */
function approvalBody(approval: Approval): Record<string, unknown> {
  return {
    approvalId: approval.id,
    requestedEmailBytes: approval.requestedEmailBytes,
    reason: approval.reason,
    status: approval.status,
    ...(approval.decisionReason === null ? {} : { decisionReason: approval.decisionReason }),
    createdAt: iso(approval.createdAt),
  };
}

export function approvalRoutes({ database, clock }: { database: Database; clock: Clock }): RouteDefinition<Caller>[] {
  const common = { path: '/approvals', tag: 'account', auth: 'key' } as const;
  return [
    defineRoute({
      ...{ ...common, method: 'GET' },
      operationId: 'listApprovals',
      summary: 'Requests for a larger email size, newest first',
      description: 'Each with its status (pending, approved or rejected) and, once decided, the reason given.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(approvalSchema) },
      handle: async (request: RouteRequest<Caller, undefined, { limit?: number; cursor?: string }>) => {
        const page = readPage(request.query, ['apr_']);
        if (!page.ok) return page;
        const { limit, after } = page.value;
        const before = (after?.[0] as string | undefined) ?? null;
        const accountId = request.caller.account.id;
        const rows = await database.execute(approvalsOperation, { accountId, before, limit: limit + 1 });
        return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.id], show: approvalBody });
      },
    }),
    defineRoute({
      ...{ ...common, method: 'POST', changesShared: true },
      operationId: 'requestApproval',
      summary: 'Ask for a larger email size',
      description: 'The operator decides. An approved limit is in force at once; GET /account shows it.',
      body: named('ApprovalRequest', { requestedEmailBytes, reason }),
      response: { status: 201, schema: approvalSchema },
      refusals: ['CONFLICT'],
      handle: async ({
        caller,
        body,
      }: RouteRequest<Caller, { requestedEmailBytes: number; reason: string }, unknown>) => {
        const nowMs = clock.now();
        const approval = { ...body, id: newId('apr', nowMs), accountId: caller.account.id };
        const asked = await database.execute(askApprovalOperation, {
          ...approval,
          nowMs,
          maximumPending: MAXIMUM_PENDING,
        });
        if (!asked) return refuse(tooMany());
        const made: Approval = {
          ...approval,
          status: 'pending',
          decisionReason: null,
          createdAt: nowMs,
          decidedAt: null,
        };
        return { ok: true, body: approvalBody(made) };
      },
    }),
  ];
}

function tooMany(): ReturnType<typeof failure> {
  return failure('CONFLICT', {
    message: `This account has ${MAXIMUM_PENDING} requests that are not decided yet; ask the operator to decide them first.`,
  });
}

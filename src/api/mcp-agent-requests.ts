/** Routes of /agent-requests: live changes that agents requested, and the decisions of signed-in users on them. */
import type { TSchema } from 'typebox';
import {
  type AgentRequest,
  agentRequestOperation,
  agentRequestsOperation,
  type Caller,
  ownerOf,
} from '../accounts/accounts.ts';
import { iso, isoOrNull } from '../base/clock.ts';
import { failure, type Result, refuse } from '../base/failure.ts';
import { listById, type PageQuery, pageFields } from '../http/paging.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import { approveChange, type ChangeCall, type ChangeDeps, declineChange, recipientsOf } from '../mcp/changes.ts';

const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);

const agentRequestSchema = named('AgentRequest', {
  agentRequestId: Type.String(),
  tool: Type.String(),
  client: Type.String({ description: 'Name of the client, as it reports itself.' }),
  keyId: Type.String({ description: 'The API key that the agent used.' }),
  status: oneOf(['pending', 'declined', 'running', 'done', 'failed', 'expired'], {
    description: 'running: approved, but its result is not available yet.',
  }),
  digest: Type.String({ description: 'SHA-256 of the call, in hexadecimal.' }),
  createdAt: Type.String({ format: 'date-time' }),
  expiresAt: Type.String({ format: 'date-time', description: 'When the request expires.' }),
  decidedAt: nullable(Type.String()),
  decidedBy: nullable(Type.String()),
  recipients: Type.Array(Type.String(), { description: 'All recipients of an email that is waiting for approval.' }),
  call: Type.Unsafe<Record<string, unknown> | null>({
    type: ['object', 'null'],
    additionalProperties: true,
    description:
      'The API call that an approval runs: method, path, query, and body. Null once the request is approved, declined, or expired.',
  }),
  result: Type.Unsafe<unknown>({ description: 'The response of the call; null if the call was not run.' }),
});

const decisionRequest = named('AgentRequestDecision', {
  digest: Type.String({
    minLength: 64,
    maxLength: 64,
    description: 'The digest of the request that you reviewed. A different digest is rejected.',
  }),
});

const UNKNOWN = refuse(failure('NOT_FOUND', { message: 'No agent request has this id.' }));

function bodyOf(request: AgentRequest, nowMs: number): Record<string, unknown> {
  const { id, tool, client, keyId, digest, createdAt, expiresAt, decidedAt, decidedBy } = request;
  const isExpired = request.status === 'pending' && expiresAt <= nowMs;
  const call = request.call === '' || isExpired ? null : (JSON.parse(request.call) as ChangeCall);
  return {
    agentRequestId: id,
    tool,
    client,
    keyId,
    status: isExpired ? 'expired' : request.status,
    digest,
    createdAt: iso(createdAt),
    expiresAt: iso(expiresAt),
    decidedAt: isoOrNull(decidedAt),
    decidedBy,
    recipients: call === null ? [] : recipientsOf(call),
    call,
    result: request.result === null ? null : (JSON.parse(request.result) as unknown),
  };
}

const common = { tag: 'agents', access: { auth: 'key' } } as const;
const idParams = { path: '/agent-requests/:id' } as const;

function readRoutes({ database, clock }: ChangeDeps): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      ...common,
      method: 'GET',
      path: '/agent-requests',
      operationId: 'listAgentRequests',
      summary: 'List changes that AI agents requested, newest first',
      description:
        'A tool call with a live key changes nothing until a person approves it. `call` is null in this list; GET /agent-requests/{id} returns it.',
      query: closed({
        status: Type.Optional(
          oneOf(['pending'], { description: 'Only requests that can still be approved or declined.' }),
        ),
        ...pageFields,
      }),
      response: { status: 200, schema: Type.Array(agentRequestSchema) },
      handle: (request: RouteRequest<Caller, undefined, PageQuery & { status?: 'pending' }>) => {
        const nowMs = clock.now();
        const pendingAtMs = request.query.status === 'pending' ? nowMs : null;
        return listById(request, {
          prefix: 'agr_',
          read: (page) => database.execute(agentRequestsOperation, { ...ownerOf(request), ...page, pendingAtMs }),
          // Omitted, because a call can be as large as an email.
          show: (row) => ({ ...bodyOf(row, nowMs), call: null }),
        });
      },
    }),
    defineRoute({
      ...common,
      ...idParams,
      method: 'GET',
      operationId: 'getAgentRequest',
      summary: 'Get a change that an AI agent requested',
      description: 'Includes the exact API call that an approval runs.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: agentRequestSchema },
      handle: async ({ caller, params }: RouteRequest<Caller>) => {
        const { account, mode } = caller;
        const key = { id: params.id ?? '', accountId: account.id, mode };
        const stored = await database.execute(agentRequestOperation, key);
        return stored === null ? UNKNOWN : answer(bodyOf(stored, clock.now()));
      },
    }),
  ];
}

function decisionRoutes(deps: ChangeDeps): RouteDefinition<Caller>[] {
  type Decide = (
    request: RouteRequest<Caller, { digest: string }>,
    deciding: Parameters<typeof declineChange>[1],
  ) => Promise<Result<AgentRequest>>;
  const decided =
    (decide: Decide) =>
    async (request: RouteRequest<Caller, { digest: string }>): Promise<RouteAnswer> => {
      const { caller, params, body, remoteAddress, requestId } = request;
      const { actor, account } = caller;
      const approver = { actor, name: actor.name, remoteAddress, requestId };
      const result = await decide(request, {
        id: params.id ?? '',
        accountId: account.id,
        digest: body.digest,
        approver,
      });
      return result.ok ? answer(bodyOf(result.value, deps.clock.now())) : result;
    };
  const route = {
    ...common,
    access: { auth: 'key', changesShared: true, peopleOnly: true },
    body: { schema: decisionRequest },
    response: { status: 200, schema: agentRequestSchema as TSchema },
    refusals: ['NOT_FOUND', 'CONFLICT'],
  } as const;
  return [
    defineRoute({
      ...route,
      method: 'POST',
      path: '/agent-requests/:id/approve',
      operationId: 'approveAgentRequest',
      summary: 'Approve and run a change that an AI agent requested',
      description:
        'Requires a user who is signed in. The call runs once, with the current permissions of the key that the agent used. If the call is refused, `status` is failed and `result` contains the reason.',
      handle: decided((request, deciding) => approveChange(deps, request, deciding)),
    }),
    defineRoute({
      ...route,
      method: 'POST',
      path: '/agent-requests/:id/decline',
      operationId: 'declineAgentRequest',
      summary: 'Decline a change that an AI agent requested',
      description: 'Requires a user who is signed in. Nothing is changed.',
      handle: decided((_request, deciding) => declineChange(deps, deciding)),
    }),
  ] as RouteDefinition<Caller>[];
}

export function agentRequestRoutes(deps: ChangeDeps): RouteDefinition<Caller>[] {
  return [...readRoutes(deps), ...decisionRoutes(deps)];
}

/**
 * Makes the changes that agents request. A change in the sandbox is made immediately. A change of live data is stored until a person
 * approves it: a user who is signed in to the portal or, if the MCP client supports it, the user of the client. The change runs at most
 * once, within ten minutes, with exactly the call that was displayed and with the permissions that the agent's key has at that time.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import {
  type AgentRequest,
  agentRequestOperation,
  type Caller,
  callerOfKeyOperation,
  type Decision,
  decideAgentRequestOperation,
  type FailedDecision,
  finishAgentRequestOperation,
  MAX_PENDING_REQUESTS,
  ownerOf,
  storeAgentRequestOperation,
} from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import type { Actor } from '../base/actor.ts';
import { type Clock, iso } from '../base/clock.ts';
import { type Failure, failure, OutcomeUnknown, type Result, refuse, Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { InnerAnswer, InnerCall, InnerCalls, OuterRequest } from '../http/inner-calls.ts';
import type { Database } from '../storage/database.ts';
import type { Client } from './protocol.ts';

/** Time after which a request without a decision expires. */
export const APPROVAL_MS = 600_000;
/** Maximum length of a call that the client displays to its user. Longer calls must be approved in the portal. */
const MAX_DISPLAYED_CHARACTERS = 8_000;

export interface ChangeDeps {
  database: Database;
  clock: Clock;
  /** Calls routes of Postrider's API. */
  call: InnerCalls<Caller>;
  secretKey: Uint8Array;
  readonly baseUrl: string;
  /** Returns why mail currently cannot be accepted; undefined if it can. */
  mailRefusal(): Failure | undefined;
}

export interface Change {
  tool: string;
  call: ChangeCall;
}

export type ChangeCall = Pick<InnerCall, 'method' | 'path' | 'query' | 'body'> & {
  /** The idempotency key of a send; by default the id of the request. */
  idempotencyKey?: string | undefined;
};

/** The result of a change: made or waiting for approval in the portal, refused, or `asking` for the approval of the client's user. */
export type ChangeResult =
  | { ok: true; data: Record<string, unknown> }
  | { ok: false; failure: Failure }
  | { ok: 'asking'; message: string; state: string };

/** The agent's request, and the reply of its client to a request for approval. */
export interface AgentCall {
  request: OuterRequest<Caller>;
  client: Client;
  state: string | undefined;
  reply: { action?: unknown; content?: unknown } | undefined;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, sorted(member)]),
  );
}

/** Returns a call as canonical JSON, which does not depend on the order of its fields. */
export function callText(call: ChangeCall): string {
  return JSON.stringify(sorted(call));
}

export function callDigest(text: string): string {
  return hash('sha256', text, 'hex');
}

function asList(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.map(String) : [];
}

/** Returns all recipients of a send. */
export function recipientsOf(call: ChangeCall): string[] {
  if (call.path !== '/send') return [];
  const { to, cc, bcc } = (call.body ?? {}) as Record<string, unknown>;
  return [...asList(to), ...asList(cc), ...asList(bcc)];
}

function isSend({ method, path }: ChangeCall): boolean {
  return method === 'POST' && path === '/send';
}

/** Makes a change by calling its route. */
async function runCall(
  deps: ChangeDeps,
  outer: OuterRequest<Caller>,
  { call, id }: { call: ChangeCall; id?: string },
): Promise<InnerAnswer> {
  const { idempotencyKey = id, ...rest } = call;
  if (!isSend(call)) return deps.call(outer, rest);
  const refusal = deps.mailRefusal();
  if (refusal !== undefined) return refuse(refusal);
  const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
  return deps.call(outer, { ...rest, headers, submitted: { ok: true, value: rest.body } });
}

/** Returns the state of a request as the result for the agent. */
function stateOf(deps: ChangeDeps, request: AgentRequest): ChangeResult {
  const { id: approvalId, status, expiresAt, digest, tool } = request;
  const isExpired = status === 'pending' && expiresAt <= deps.clock.now();
  if (status === 'pending' && !isExpired) {
    const next = `Nothing has changed yet. A person who is signed in to the portal must approve ${tool} at ${deps.baseUrl}/app/live/agents before ${iso(expiresAt)}. Then call ${tool} with only this approvalId to get the result.`;
    return { ok: true, data: { status: 'pending_approval', approvalId, expiresAt: iso(expiresAt), digest, next } };
  }
  const result = request.result === null ? null : (JSON.parse(request.result) as unknown);
  const { decidedBy } = request;
  return { ok: true, data: { status: isExpired ? 'expired' : status, approvalId, decidedBy, result } };
}

export interface Approver {
  actor: Actor;
  /** Name that is recorded with the request. */
  name: string;
  remoteAddress: string;
  requestId: string;
}

const UNKNOWN = failure('NOT_FOUND', { message: 'No agent request has this id.' });

function decisionFailure(decided: FailedDecision): Failure {
  if (decided.outcome === 'unknown') return UNKNOWN;
  const { status } = decided.request;
  const messages = {
    'already-decided': `The request is already ${status === 'declined' ? 'declined' : 'approved'}.`,
    expired: 'The request expired. The agent must request the change again.',
    'other-call': '`digest` does not match the stored request. Reload the request and check it again.',
  };
  return failure('CONFLICT', { message: messages[decided.outcome] });
}

interface DecisionInput {
  id: string;
  accountId: string;
  digest: string;
  approver: Approver;
}

function decide(deps: ChangeDeps, input: DecisionInput, status: 'running' | 'declined'): Promise<Decision> {
  const { id, accountId, digest, approver } = input;
  const { actor, name, remoteAddress, requestId } = approver;
  const nowMs = deps.clock.now();
  const by = { caller: { actor, account: { id: accountId }, mode: 'live' as const }, remoteAddress, requestId };
  return requestedChanges(deps.database, by, nowMs).execute(decideAgentRequestOperation, {
    id,
    accountId,
    mode: 'live',
    digest,
    status,
    decidedBy: name,
    nowMs,
  });
}

/** Declines a request. */
export async function declineChange(deps: ChangeDeps, input: DecisionInput): Promise<Result<AgentRequest>> {
  const decided = await decide(deps, input, 'declined');
  return decided.outcome === 'decided'
    ? { ok: true, value: { ...decided.request, call: '' } }
    : refuse(decisionFailure(decided));
}

/** Runs an approved call with the current permissions of the agent's key. The audit log records the approver as the actor. */
async function runApproved(
  deps: ChangeDeps,
  outer: Omit<OuterRequest<Caller>, 'caller'>,
  { request, actor }: { request: AgentRequest; actor: Actor },
): Promise<InnerAnswer> {
  const { id, accountId, keyId, call, digest } = request;
  if (callDigest(call) !== digest)
    return refuse(
      failure('CONFLICT', { message: 'The stored request was altered. The agent must request the change again.' }),
    );
  const caller = await deps.database.execute(callerOfKeyOperation, { keyId, accountId, nowMs: deps.clock.now() });
  if (caller === null)
    return refuse(
      failure('FORBIDDEN', {
        message:
          'The API key of the agent was revoked or has expired. Create a key for the agent and request the change again.',
      }),
    );
  if (caller.account.status !== 'active') return refuse(failure('ACCOUNT_SUSPENDED'));
  const { requestId, remoteAddress, isSecure, signal, log, rawBody, backPressure } = outer;
  const inner = {
    requestId,
    remoteAddress,
    isSecure,
    signal,
    log,
    rawBody,
    backPressure,
    noteMessage: (messageId: string) => outer.noteMessage(messageId),
    caller: { ...caller, actor },
  };
  try {
    return await runCall(deps, inner, { call: JSON.parse(call) as ChangeCall, id });
  } catch (error) {
    if (error instanceof OutcomeUnknown)
      return refuse(
        failure('INTERNAL_ERROR', {
          message: 'Postrider cannot tell whether the change was made. Check before you request it again.',
        }),
      );
    if (error instanceof Unavailable) return refuse(failure(error.failureCode));
    throw error;
  }
}

/** Approves a request, once, and runs it. Returns the request with its result. */
export async function approveChange(
  deps: ChangeDeps,
  outer: Omit<OuterRequest<Caller>, 'caller'>,
  input: DecisionInput,
): Promise<Result<AgentRequest>> {
  const decided = await decide(deps, input, 'running');
  if (decided.outcome !== 'decided') return refuse(decisionFailure(decided));
  const { request } = decided;
  const response = await runApproved(deps, outer, { request, actor: input.approver.actor });
  const status = response.ok ? 'done' : 'failed';
  const { code, message, details } = response.ok ? { code: '', message: '', details: [] } : response.failure;
  const result = JSON.stringify(response.ok ? (response.body ?? {}) : { error: { code, message, details } });
  await deps.database.execute(finishAgentRequestOperation, { id: request.id, status, result });
  return { ok: true, value: { ...request, status, result, call: '' } };
}

/** Returns the proof that Postrider asked the user of this client to approve this request. */
function stateProof(deps: ChangeDeps, { id, keyId, digest }: AgentRequest): string {
  return createHmac('sha256', deps.secretKey).update(`mcp-elicitation\n${id}\n${keyId}\n${digest}`).digest('base64url');
}

/** Asks the user of the client to approve a request. */
function askUser(deps: ChangeDeps, request: AgentRequest, client: Client): ChangeResult {
  const call = JSON.parse(request.call) as ChangeCall;
  const recipients = recipientsOf(call);
  const lines = [
    `${client.name} wants to run ${request.tool} on live data. Approve exactly this call?`,
    ...(recipients.length === 0 ? [] : [`Recipients (${recipients.length}): ${recipients.join(', ')}`]),
    JSON.stringify(call, null, 2),
  ];
  return { ok: 'asking', message: lines.join('\n\n'), state: `${request.id}.${stateProof(deps, request)}` };
}

const BAD_STATE = refuse(
  failure('INVALID_REQUEST', { message: '`requestState` is not valid for this call. Call the tool again without it.' }),
);

/** Handles the reply of the client's user to the approval request. */
async function handleReply(deps: ChangeDeps, agentCall: AgentCall, digest: string): Promise<ChangeResult> {
  const { request, client, state = '', reply } = agentCall;
  const { account, keyId, actor } = request.caller;
  const [id = '', proof = ''] = state.split('.');
  const stored = await deps.database.execute(agentRequestOperation, { id, accountId: account.id, mode: 'live' });
  if (stored === null || stored.keyId !== keyId || stored.digest !== digest) return BAD_STATE;
  const expected = Buffer.from(stateProof(deps, stored));
  const given = Buffer.from(proof);
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return BAD_STATE;
  if (stored.status !== 'pending' || stored.expiresAt <= deps.clock.now()) return stateOf(deps, stored);
  if (reply === undefined) return askUser(deps, stored, client);
  const name = `the user of ${client.name}`;
  const { remoteAddress, requestId } = request;
  const input = { id, accountId: account.id, digest, approver: { actor, name, remoteAddress, requestId } };
  const isApproved = reply.action === 'accept' && (reply.content as { approve?: unknown } | null)?.approve === true;
  const decided = isApproved ? await approveChange(deps, request, input) : await declineChange(deps, input);
  return decided.ok ? stateOf(deps, decided.value) : decided;
}

/** Makes a change, or stores it for approval. */
export async function requestChange(
  deps: ChangeDeps,
  agentCall: AgentCall,
  { tool, call }: Change,
): Promise<ChangeResult> {
  const { request, client } = agentCall;
  const { account, keyId, mode } = request.caller;
  if (mode === 'sandbox') {
    const response = await runCall(deps, request, { call });
    return response.ok ? { ok: true, data: { status: 'done', result: response.body ?? null } } : response;
  }
  const text = callText(call);
  const digest = callDigest(text);
  if (agentCall.state !== undefined) return handleReply(deps, agentCall, digest);
  const nowMs = deps.clock.now();
  const id = newId('agr', nowMs);
  const pending: AgentRequest = {
    id,
    accountId: account.id,
    mode,
    keyId,
    client: client.name,
    tool,
    call: text,
    digest,
    status: 'pending',
    createdAt: nowMs,
    expiresAt: nowMs + APPROVAL_MS,
    decidedAt: null,
    decidedBy: null,
    result: null,
  };
  const stored = await requestedChanges(deps.database, request, nowMs).execute(storeAgentRequestOperation, {
    request: pending,
    mostPending: MAX_PENDING_REQUESTS,
    id,
  });
  if (stored === null) {
    const message = `This account already has ${MAX_PENDING_REQUESTS} agent requests waiting for approval. A user must approve or decline some of them in the portal first.`;
    return refuse(failure('LIMIT_REACHED', { message }));
  }
  const canAskUser = client.canAsk && stored.call.length <= MAX_DISPLAYED_CHARACTERS;
  return canAskUser ? askUser(deps, stored, client) : stateOf(deps, stored);
}

/** Returns the state of a request that was made with the caller's key. */
export async function changeState(deps: ChangeDeps, caller: Caller, id: string): Promise<ChangeResult> {
  const key = { ...ownerOf({ caller }), id };
  const stored = await deps.database.execute(agentRequestOperation, key);
  return stored === null || stored.keyId !== caller.keyId ? refuse(UNKNOWN) : stateOf(deps, stored);
}

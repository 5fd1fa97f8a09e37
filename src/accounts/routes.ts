/**
 * The account's own HTTP surface: the account and its settings, API keys, SMTP credentials, requests for a larger email size. All of
 * it concerns the caller's account alone; keys, credentials and settings are shared by both modes, usage and health are those of the
 * key's mode. Deciding on a size is the operator's, and has no place on this surface: no account approves itself.
 */

import { type TSchema, Type } from 'typebox';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { type Page, type PartShape, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, NO_LIVE_POWER, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import { closed, confirmationSchema, named, oneOf } from '../http/validate.ts';
import { resumeSending } from '../reputation/reputation.ts';
import type { Database } from '../storage/database.ts';
import {
  type Account,
  allowedSenderIssues,
  type Caller,
  handedOn,
  MAXIMUM_EMAIL_BYTES,
  type PageRequest,
  type Revocation,
  type Revoked,
  STANDARD_EMAIL_BYTES,
  type SubmissionPorts,
} from './account.ts';
import type { KnownCallers, KnownLogins } from './authenticate.ts';
import * as bodies from './bodies.ts';
import { createKey, createSmtpCredential } from './create.ts';
import {
  credentialsOperation,
  keysOperation,
  renameKeyOperation,
  revokeCredentialOperation,
  revokeKeyOperation,
} from './credential-store.ts';
import { sendingProtectionOperation } from './protection-store.ts';
import { patchSettings, settingsIssues, settingsPatchSchema } from './settings.ts';
import { type Approval, accountOperation, approvalsOperation, askApprovalOperation } from './store.ts';
import { thresholdsOf } from './thresholds.ts';
import { createUsageReader } from './usage.ts';

const route = <B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<Caller, B, Q>,
): RouteDefinition<Caller> => defineRoute(definition);

const pageQuery = closed(pageFields);

async function listAnswer<T extends { id: string }>(
  request: { readonly url: string; readonly query: { limit?: number; cursor?: string } },
  list: { idShape: PartShape; read: (page: PageRequest) => Promise<T[]>; show: (row: T) => unknown },
): Promise<RouteAnswer> {
  const page = readPage(request.query, [list.idShape]);
  if (!page.ok) return page;
  const rows = await list.read(pageRequest(page.value));
  return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.id], show: list.show });
}

function pageRequest(page: Page): PageRequest {
  return { before: (page.after?.[0] as string | undefined) ?? null, limit: page.limit + 1 };
}

/** Whether this caller makes and revokes what is of this mode. */
function mayManage(caller: Caller, mode: Mode): boolean {
  return caller.mode === 'live' || mode === 'sandbox';
}

function revocationOf(caller: Caller, id: string, clock: Clock): Revocation {
  const mode = mayManage(caller, 'live') ? null : caller.mode;
  return { id, accountId: caller.account.id, mode, nowMs: clock.now() };
}

function revokedAnswer(revoked: Revoked, what: string): RouteAnswer {
  if (revoked === 'revoked') return answer({ message: `The ${what} has been revoked.` });
  if (revoked === 'other-mode') return refuse(NO_LIVE_POWER);
  return refuse(failure('NOT_FOUND', { message: `No ${what} has this id.` }));
}

interface AccountRouteOptions {
  database: Database;
  clock: Clock;
  /** What authentication remembers: a revoked key and a changed setting are to be felt by the very next request. */
  callers: KnownCallers;
  /** The same for log-ins over SMTP in this process. */
  logins: KnownLogins;
  submissionPorts(): SubmissionPorts;
  /** Mail may be due. */
  nudge(): void;
}

/** GET and PATCH /account, GET /account/health, POST /account/resume-sending, /api-keys, /smtp-credentials. */
export function accountRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  return [...settingsRoutes(options), ...keyRoutes(options), ...credentialRoutes(options)];
}

function settingsRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  const { database } = options;
  const reader = createUsageReader(options);
  const shown = async (account: Account, caller: Caller) =>
    answer(bodies.accountBody(account, await reader.usage(account.id, caller.mode), options.submissionPorts()));
  return [
    route({
      ...{ method: 'GET', path: '/account', tag: 'account', auth: 'key' },
      operationId: 'getAccount',
      summary: 'Get the account: plan, limits, usage, settings',
      description: 'limits are what this account may have at most; usage counts the mode of the key.',
      response: { status: 200, schema: bodies.accountSchema },
      // Read afresh: the caller's copy may be a moment old, and a setting just made is to be seen.
      handle: async ({ caller }) =>
        shown((await database.execute(accountOperation, caller.account.id)) ?? caller.account, caller),
    }),
    route({
      ...{ method: 'PATCH', path: '/account', tag: 'account', auth: 'key', role: 'owner', changesShared: true },
      operationId: 'updateAccount',
      summary: "Change the account's settings",
      description:
        'Merged into what is there: only what is given changes, null removes a variable. Answers the account.',
      body: settingsPatchSchema,
      bodyOptional: true,
      furtherIssues: settingsIssues,
      response: { status: 200, schema: bodies.accountSchema },
      handle: async (request) => {
        const { caller, body } = request;
        const changes = requestedChanges(database, request, options.clock.now());
        const patched = await patchSettings(changes, caller.account.id, body);
        if (!patched.ok) return patched;
        options.callers.evictAccount(caller.account.id);
        options.logins.evictAccount(caller.account.id);
        return shown(patched.value, caller);
      },
    }),
    route({
      ...{ method: 'GET', path: '/account/health', tag: 'account', auth: 'key' },
      operationId: 'getAccountHealth',
      summary: 'Get delivery, bounce, and complaint rates of the last 7 days',
      description:
        'Rates of bounces and complaints over the last seven days against the thresholds of the large mailbox providers, for the mode of the key, and the state of sending protection for live mail. A rate is rated only from its minimum number of messages on.',
      response: { status: 200, schema: bodies.healthSchema },
      handle: async ({ caller: { account, mode } }) => {
        const protection = await database.execute(sendingProtectionOperation, account.id);
        const health = await reader.health(account.id, mode, thresholdsOf(protection?.set ?? {}));
        return answer(bodies.healthBody(health, mode === 'live' && protection ? protection : undefined));
      },
    }),
    route({
      ...{ method: 'POST', path: '/account/resume-sending', tag: 'account', auth: 'key', role: 'owner' },
      changesShared: true,
      operationId: 'resumeSending',
      summary: 'Release held live mail',
      description:
        'Call this once the cause is fixed. Sends the live mail that sending protection holds, and counts bounces and complaints from zero. 409 if no mail is held.',
      body: bodies.resumeRequest,
      refusals: ['CONFLICT'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        const nowMs = options.clock.now();
        const changes = requestedChanges(database, request, nowMs);
        const resumed = await resumeSending({ changes, accountId: request.caller.account.id, nowMs });
        if (!resumed.ok) return resumed;
        options.nudge();
        return answer(resumed.value);
      },
    }),
  ];
}

function keyRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  const { database, clock } = options;
  return [
    route({
      ...{ method: 'GET', path: '/api-keys', tag: 'account', auth: 'key' },
      operationId: 'listApiKeys',
      summary: 'List active API keys, newest first',
      description: 'Keys are shown by their ids; the key itself is never shown again.',
      query: pageQuery,
      response: { status: 200, schema: Type.Array(bodies.keySchema) },
      handle: (request) =>
        listAnswer(request, {
          idShape: 'key_',
          read: (page) => database.execute(keysOperation, { ...page, accountId: request.caller.account.id }),
          show: bodies.keyBody,
        }),
    }),
    route({
      ...{ method: 'POST', path: '/api-keys', tag: 'account', auth: 'key', role: 'owner' },
      operationId: 'createApiKey',
      summary: 'Create an API key',
      description:
        "The key itself is shown in this answer only. Without a choice it is of the caller's mode and of full scope. A sandbox key makes sandbox keys only.",
      body: bodies.newKeyRequest,
      furtherIssues: ({ allowedSenders = [] }) => allowedSenderIssues(allowedSenders),
      bodyOptional: true,
      refusals: ['LIMIT_REACHED'],
      response: { status: 201, schema: bodies.newKeySchema },
      handle: async (request) => {
        const { caller, body } = request;
        const { mode = caller.mode, scope = 'full', name = null } = body;
        if (!mayManage(caller, mode)) return refuse(NO_LIVE_POWER);
        const senders = handedOn(caller.allowedSenders, body.allowedSenders);
        if (!senders.ok) return senders;
        const wanted = { mode, scope, name, allowedSenders: senders.value };
        const made = await createKey(
          { database: requestedChanges(database, request, clock.now()), clock },
          { ...wanted, accountId: caller.account.id },
        );
        if (!made.ok) return made;
        const { keyId, apiKey, createdAt } = made.value;
        return answer({ ...bodies.keyBody({ ...wanted, id: keyId, createdAt }), apiKey });
      },
    }),
    route({
      ...{ method: 'PATCH', path: '/api-keys/:keyId', tag: 'account', auth: 'key', role: 'owner' },
      operationId: 'renameApiKey',
      summary: 'Rename an API key',
      description: 'The key and what it is allowed to do stay the same. A sandbox key renames sandbox keys only.',
      body: bodies.renameKeyRequest,
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: bodies.keySchema },
      handle: async (request) => {
        const { caller, params, body } = request;
        const keyId = params.keyId ?? '';
        const { id, accountId, mode } = revocationOf(caller, keyId, clock);
        const renamed = await requestedChanges(database, request, clock.now()).execute(renameKeyOperation, {
          ...{ id, accountId, mode, name: body.name },
        });
        if (renamed === 'other-mode') return refuse(NO_LIVE_POWER);
        if (renamed === 'unknown') return refuse(failure('NOT_FOUND', { message: 'There is no such API key.' }));
        options.callers.evictKey(keyId);
        return answer(bodies.keyBody(renamed));
      },
    }),
    route({
      ...{ method: 'DELETE', path: '/api-keys/:keyId', tag: 'account', auth: 'key', role: 'owner' },
      operationId: 'revokeApiKey',
      summary: 'Revoke an API key',
      description:
        'It is refused from the next request on. A key may revoke itself. A sandbox key revokes sandbox keys only.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        const { caller, params } = request;
        const keyId = params.keyId ?? '';
        const revoked = await requestedChanges(database, request, clock.now()).execute(
          revokeKeyOperation,
          revocationOf(caller, keyId, clock),
        );
        options.callers.evictKey(keyId);
        return revokedAnswer(revoked, 'API key');
      },
    }),
  ];
}

function credentialRoutes({ database, clock, logins }: AccountRouteOptions): RouteDefinition<Caller>[] {
  return [
    route({
      ...{ method: 'GET', path: '/smtp-credentials', tag: 'account', auth: 'key' },
      operationId: 'listSmtpCredentials',
      summary: 'List active SMTP credentials, newest first',
      description: 'Passwords are never shown again.',
      query: pageQuery,
      response: { status: 200, schema: Type.Array(bodies.credentialSchema) },
      handle: (request) =>
        listAnswer(request, {
          idShape: 'smtp_',
          read: (page) => database.execute(credentialsOperation, { ...page, accountId: request.caller.account.id }),
          show: bodies.credentialBody,
        }),
    }),
    route({
      ...{ method: 'POST', path: '/smtp-credentials', tag: 'account', auth: 'key', role: 'owner' },
      operationId: 'createSmtpCredential',
      summary: 'Create an SMTP credential',
      description:
        "The password is shown in this answer only. Without a choice it is of the caller's mode. A sandbox key makes sandbox credentials only.",
      body: bodies.newCredentialRequest,
      furtherIssues: ({ allowedSenders = [] }) => allowedSenderIssues(allowedSenders),
      bodyOptional: true,
      refusals: ['PLAN_NOT_ELIGIBLE', 'LIMIT_REACHED'],
      response: { status: 201, schema: bodies.newCredentialSchema },
      handle: async (request) => {
        const { caller, body } = request;
        const { mode = caller.mode } = body;
        if (!mayManage(caller, mode)) return refuse(NO_LIVE_POWER);
        const senders = handedOn(caller.allowedSenders, body.allowedSenders);
        if (!senders.ok) return senders;
        const { deliveryReports = 'off' } = body;
        const wanted = { mode, allowedSenders: senders.value, deliveryReports };
        const made = await createSmtpCredential(
          { database: requestedChanges(database, request, clock.now()), clock },
          { ...wanted, accountId: caller.account.id },
        );
        if (!made.ok) return made;
        const { smtpCredentialId: id, username, password, createdAt } = made.value;
        return answer({ ...bodies.credentialBody({ ...wanted, id, username, createdAt }), password });
      },
    }),
    route({
      ...{ method: 'DELETE', path: '/smtp-credentials/:id', tag: 'account', auth: 'key', role: 'owner' },
      operationId: 'revokeSmtpCredential',
      summary: 'Revoke an SMTP credential',
      description:
        'Log-ins are refused from now on, and so is the next mail of an open session; on other nodes within a second.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        const { caller, params } = request;
        const id = params.id ?? '';
        const revoked = await requestedChanges(database, request, clock.now()).execute(
          revokeCredentialOperation,
          revocationOf(caller, id, clock),
        );
        logins.evictCredential(id);
        return revokedAnswer(revoked, 'SMTP credential');
      },
    }),
  ];
}

const MAXIMUM_PENDING = 100;
const TOO_MANY = `This account has ${MAXIMUM_PENDING} requests that are not decided yet; ask the operator to decide them first.`;

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
function approvalBody(approval: Omit<Approval, 'decidedAt'>): Record<string, unknown> {
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
    route({
      ...{ ...common, method: 'GET' },
      operationId: 'listApprovals',
      summary: 'List requests for a larger email size, newest first',
      description: 'Each with its status (pending, approved or rejected) and, once decided, the reason given.',
      query: pageQuery,
      response: { status: 200, schema: Type.Array(approvalSchema) },
      handle: (request) =>
        listAnswer(request, {
          idShape: 'apr_',
          read: (page) => database.execute(approvalsOperation, { ...page, accountId: request.caller.account.id }),
          show: approvalBody,
        }),
    }),
    route({
      ...{ ...common, method: 'POST', role: 'owner', changesShared: true },
      operationId: 'requestApproval',
      summary: 'Request a larger email size',
      description: 'The operator decides. An approved limit is in force at once; GET /account shows it.',
      body: named('ApprovalRequest', { requestedEmailBytes, reason }),
      response: { status: 201, schema: approvalSchema },
      refusals: ['CONFLICT'],
      handle: async (request) => {
        const { caller, body } = request;
        const nowMs = clock.now();
        const approval = { ...body, id: newId('apr', nowMs), accountId: caller.account.id };
        const asking = { ...approval, nowMs, maximumPending: MAXIMUM_PENDING };
        if (!(await requestedChanges(database, request, nowMs).execute(askApprovalOperation, asking)))
          return refuse(failure('CONFLICT', { message: TOO_MANY }));
        return answer(approvalBody({ ...approval, status: 'pending', decisionReason: null, createdAt: nowMs }));
      },
    }),
  ];
}

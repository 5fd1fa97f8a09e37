/** /operator/accounts: finding, creating, and changing accounts; the effect of a suspension can be previewed. */
import type { Static } from 'typebox';
import {
  type Account,
  accountOperation,
  type Caller,
  createAccount,
  createUsageReader,
  messageCountsOperation,
  sendingProtectionOperation,
  setAccountOperation,
  thresholdIssues,
  thresholdsOf,
} from '../accounts/accounts.ts';
import { failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { idFloor } from '../base/ids.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, oneOf } from '../http/validate.ts';
import { limitUsageOperation, quotaUsageOperation } from '../limits/limits.ts';
import * as bodies from '../operator/bodies.ts';
import { ROWS_AT_MOST } from '../operator/destinations.ts';
import { type OperatorRouteDeps, operatorChanges, operatorRoute } from '../operator/operator-route.ts';
import {
  accountPageOperation,
  credentialCountsOperation,
  lastAttemptsOperation,
  lastMessageOperation,
  queueByDomainOperation,
} from '../operator/store.ts';
import { resumeSending } from '../reputation/reputation.ts';
import type { Database } from '../storage/database.ts';

const DAY_MS = 86_400_000;
/** A message is queued for at most 30 days of its schedule and three days of attempts. */
const WAITING_DAYS = 33;
const COUNTED_AT_MOST = 100_000;

const UNKNOWN = refuse(failure('NOT_FOUND', { message: 'No account has this id.' }));

export function accountRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  return [...readRoutes(deps), ...changeRoutes(deps)];
}

async function found(database: Database, id: string | undefined): Promise<Result<Account>> {
  const account = await database.execute(accountOperation, id ?? '');
  return account === null ? UNKNOWN : ok(account);
}

function readRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const reader = createUsageReader(deps);
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/accounts',
      operationId: 'listAccounts',
      summary: 'List accounts, newest first',
      description: 'Filtered by part of the name (case-insensitive), status, plan, and sending protection.',
      query: closed({
        name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Part of the name.' })),
        status: Type.Optional(oneOf(['active', 'suspended'], { description: 'Accounts of this status.' })),
        plan: Type.Optional(oneOf(['free', 'paid', 'enterprise'], { description: 'Accounts on this plan.' })),
        sendingProtection: Type.Optional(
          oneOf(['warned', 'held'], { description: 'Active accounts whose live mail is in this state.' }),
        ),
        ...pageFields,
      }),
      response: { status: 200, schema: Type.Array(bodies.accountSchema) },
      handle: (request) => {
        const { name = null, status = null, plan = null, sendingProtection: protectionStatus = null } = request.query;
        const filters = { name, status, plan, protectionStatus };
        return listById(request, {
          prefix: 'acc_',
          read: (page) => database.execute(accountPageOperation, { ...filters, ...page }),
          show: bodies.accountBody,
        });
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/accounts/:id',
      operationId: 'getOperatorAccount',
      summary: 'Get an account: plan, limits, usage, health',
      description: 'Usage, quotas, and health cover live mail.',
      response: { status: 200, schema: bodies.accountDetailSchema },
      refusals: ['NOT_FOUND'],
      handle: async ({ params }) => {
        const account = await found(database, params.id);
        if (!account.ok) return account;
        const { id } = account.value;
        const protection = await database.execute(sendingProtectionOperation, id);
        if (protection === null) return UNKNOWN;
        const usage = await reader.usage(id, 'live');
        const health = await reader.health(id, 'live', thresholdsOf(protection.set));
        const lastAt = await database.execute(lastMessageOperation, id);
        const owner = { accountId: id, nowMs: clock.now() };
        const limitUsage = {
          ...(await database.execute(limitUsageOperation, owner)),
          ...(await database.execute(quotaUsageOperation, owner)),
        };
        return answer(bodies.accountDetailBody(account.value, { usage, limitUsage, health, protection, lastAt }));
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/accounts/:id/queue',
      operationId: 'getQueueOfAccount',
      summary: 'Get the queued messages of an account by recipient domain',
      description:
        "Counts the account's live messages among the 50,000 queued messages of all accounts that are due first. The domains with the most messages come first.",
      response: { status: 200, schema: bodies.accountQueueSchema },
      refusals: ['NOT_FOUND'],
      handle: async ({ params }) => {
        const account = await found(database, params.id);
        if (!account.ok) return account;
        const domains = await database.execute(queueByDomainOperation, {
          rows: ROWS_AT_MOST,
          accountId: account.value.id,
        });
        const failed = bodies.shownDomains(domains).flatMap(({ failedSeq }) => failedSeq ?? []);
        const attempts = await database.execute(lastAttemptsOperation, failed);
        const isComplete = deps.queueDepth() < ROWS_AT_MOST;
        return answer(bodies.accountQueueBody(domains, { attempts, isComplete }));
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/accounts/:id/suspension',
      operationId: 'previewSuspension',
      summary: 'Preview the effect of suspending an account',
      description:
        'Returns the mail that would be held, and the keys and credentials that would be refused. Changes nothing.',
      response: { status: 200, schema: bodies.suspensionSchema },
      refusals: ['NOT_FOUND'],
      handle: async ({ params }) => {
        const account = await found(database, params.id);
        if (!account.ok) return account;
        const accountId = account.value.id;
        const rows = await database.execute(messageCountsOperation, {
          accountId,
          mode: 'live',
          recentMs: 0,
          limit: COUNTED_AT_MOST,
          fromId: idFloor('msg', clock.now() - WAITING_DAYS * DAY_MS),
        });
        const credentials = await database.execute(credentialCountsOperation, { accountId, nowMs: clock.now() });
        const looked = rows.reduce((sum, { messages }) => sum + messages, 0);
        const counts = new Map(rows.map(({ status, messages }) => [status, messages]));
        const isComplete = looked < COUNTED_AT_MOST;
        return answer(bodies.suspensionBody(account.value, { counts, isComplete, credentials }));
      },
    }),
  ];
}

function changeRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  const { clock, callers, logins, nudge } = deps;
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/accounts',
      operationId: 'createAccount',
      summary: 'Create an account with a live and a sandbox key',
      description: 'The keys are shown only in this response. The default plan is paid.',
      body: { schema: bodies.newAccountRequest },
      response: { status: 201, schema: bodies.newAccountSchema },
      handle: async (request) => {
        const { name, plan = 'paid' } = request.body;
        const database = operatorChanges(deps, request, null);
        const { account, apiKey, sandboxApiKey } = await createAccount(
          { database, clock },
          { name: name.trim(), plan },
        );
        return answer({ accountId: account.id, apiKey, sandboxApiKey });
      },
    }),
    operatorRoute({
      method: 'PATCH',
      path: '/operator/accounts/:id',
      operationId: 'setAccount',
      summary: 'Change name, plan, status, email size, limits, or thresholds of an account',
      description:
        'Only the given fields change. A suspended account is refused everywhere within a second, and its mail stays queued until the account is active again. Its users are notified by email when the status changes, but not when only `suspensionReason` does.',
      body: { schema: bodies.accountChangeRequest },
      response: { status: 200, schema: bodies.accountSchema },
      refusals: ['NOT_FOUND'],
      handle: async (request) => {
        const id = request.params.id ?? '';
        const {
          name,
          plan = null,
          status = null,
          suspensionReason,
          approvedEmailBytes = null,
          limits,
          sendingProtection,
          twoFactorRequired,
        } = request.body as Static<typeof bodies.accountChangeRequest>;
        const issues = thresholdIssues(sendingProtection ?? {});
        if (suspensionReason !== undefined && status !== 'suspended')
          issues.push({ field: 'suspensionReason', message: 'requires `status` to be "suspended"' });
        if (issues.length > 0) return refuse(invalid(issues));
        const requested = {
          ...(name !== undefined && { name: name.trim() }),
          ...(limits && { limits }),
          ...(sendingProtection && { thresholds: sendingProtection }),
          ...(twoFactorRequired === false && { twoFactorRequired }),
          ...(suspensionReason !== undefined && { suspensionReason: suspensionReason.trim() }),
        };
        const change = { id, plan, status, approvedEmailBytes, ...requested, nowMs: clock.now() };
        const account = await operatorChanges(deps, request, id).execute(setAccountOperation, change);
        if (account === null) return UNKNOWN;
        callers.evictAccount(id);
        logins.evictAccount(id);
        if (status === 'active') nudge();
        return answer(bodies.accountBody(account));
      },
    }),
    operatorRoute({
      method: 'POST',
      path: '/operator/accounts/:id/resume-sending',
      operationId: 'resumeSendingOfAccount',
      summary: 'Release held live mail of an account',
      description:
        'Sends the live mail that sending protection holds, and counts bounces and complaints from zero. Returns 409 if no mail is held.',
      body: { schema: closed({}), optional: true },
      response: { status: 200, schema: confirmationSchema },
      refusals: ['NOT_FOUND', 'CONFLICT'],
      handle: async (request) => {
        const account = await found(deps.database, request.params.id);
        if (!account.ok) return account;
        const accountId = account.value.id;
        const changes = operatorChanges(deps, request, accountId);
        const resumed = await resumeSending({ changes, accountId, nowMs: clock.now() });
        if (!resumed.ok) return resumed;
        nudge();
        return answer(resumed.value);
      },
    }),
  ];
}

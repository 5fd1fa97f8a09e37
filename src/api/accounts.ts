/**
 * HTTP routes of the account itself: the account and its settings, API keys, SMTP credentials, and requests for a larger email size. All
 * routes concern the caller's account only. Keys, credentials, and settings are shared by both modes; usage and health depend on the key's
 * mode. Operators decide on requests for a larger size through the operator API.
 */
import type { TSchema } from 'typebox';
import {
  type Account,
  allowedSenderIssues,
  type Caller,
  grantedSenders,
  MAXIMUM_EMAIL_BYTES,
  type Revocation,
  type RevocationResult,
  STANDARD_EMAIL_BYTES,
  type SubmissionPorts,
} from '../accounts/account.ts';
import type { CallerCache, LoginCache } from '../accounts/authenticate.ts';
import * as bodies from '../accounts/bodies.ts';
import { createKey, createSigningKey, createSmtpCredential } from '../accounts/create.ts';
import {
  type ApiKeyRecord,
  credentialsOperation,
  keysOperation,
  type NewKey,
  revokeCredentialOperation,
  revokeKeyOperation,
  updateCredentialOperation,
  updateKeyOperation,
} from '../accounts/credential-store.ts';
import { logoSummaryOperation } from '../accounts/logo-store.ts';
import { allowedNetworkIssues, grantedNetworks } from '../accounts/networks.ts';
import { sendingProtectionOperation } from '../accounts/protection-store.ts';
import { patchSettings, settingsIssues, settingsPatchSchema } from '../accounts/settings.ts';
import { type Approval, accountOperation, approvalsOperation, requestApprovalOperation } from '../accounts/store.ts';
import { thresholdsOf } from '../accounts/thresholds.ts';
import { createUsageReader } from '../accounts/usage.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, defineRoute, LIVE_KEY_REQUIRED, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, isoTimeMs, named, oneOf } from '../http/validate.ts';
import { resumeSending } from '../reputation/reputation.ts';
import type { Database } from '../storage/database.ts';
import { logoRoutes } from './accounts-logo.ts';

const route = <B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<Caller, B, Q>,
): RouteDefinition<Caller> => defineRoute(definition);

const pageQuery = closed(pageFields);

/** Returns whether this caller can create and revoke resources of this mode. */
function mayManage(caller: Caller, mode: Mode): boolean {
  return caller.mode === 'live' || mode === 'sandbox';
}

/** Identifies a key or credential of the caller's account that it can change. */
function targetOf(caller: Caller, id: string) {
  return { id, accountId: caller.account.id, mode: mayManage(caller, 'live') ? null : caller.mode };
}

function revocationOf(caller: Caller, id: string, clock: Clock): Revocation {
  return { ...targetOf(caller, id), nowMs: clock.now() };
}

function unchangedAnswer(why: 'unknown' | 'other-mode', what: string): RouteAnswer {
  if (why === 'other-mode') return refuse(LIVE_KEY_REQUIRED);
  return refuse(failure('NOT_FOUND', { message: `No ${what} has this id.` }));
}

function revokedAnswer(revoked: RevocationResult, what: string): RouteAnswer {
  if (revoked !== 'revoked') return unchangedAnswer(revoked, what);
  return answer({ message: `The ${what} has been revoked.` });
}

interface AccountRouteOptions {
  database: Database;
  clock: Clock;
  /** Authentication cache. Routes evict entries from it so that a revoked key or a changed setting takes effect with the next request. */
  callers: CallerCache;
  logins: LoginCache;
  submissionPorts(): SubmissionPorts;
  /** The service's secret key, which seals the secrets of keys that sign requests; undefined if the SES interface is off. */
  signingSecretKey: Uint8Array | undefined;
  /** Wakes delivery because mail may be due. */
  nudge(): void;
}

/** Returns the routes of /account, /account/health, /account/resume-sending, /account/logo, /api-keys, and /smtp-credentials. */
export function accountRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  return [...settingsRoutes(options), ...logoRoutes(options), ...keyRoutes(options), ...credentialRoutes(options)];
}

function settingsRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  const { database } = options;
  const reader = createUsageReader(options);
  const accountAnswer = async (account: Account, caller: Caller) =>
    answer(
      bodies.accountBody(account, {
        usage: await reader.usage(account.id, caller.mode),
        smtp: options.submissionPorts(),
        logo: await database.execute(logoSummaryOperation, account.id),
      }),
    );
  return [
    route({
      method: 'GET',
      path: '/account',
      tag: 'account',
      access: { auth: 'key' },
      operationId: 'getAccount',
      summary: 'Get the account: plan, limits, usage, settings',
      description: '`limits` are the maximums of this account. `usage` counts messages in the mode of the key.',
      response: { status: 200, schema: bodies.accountSchema },
      // Reads the row again: the caller's cached copy may be outdated, and a new setting must be visible.
      handle: async ({ caller }) =>
        accountAnswer((await database.execute(accountOperation, caller.account.id)) ?? caller.account, caller),
    }),
    route({
      method: 'PATCH',
      path: '/account',
      tag: 'account',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'updateAccount',
      summary: "Change the account's name, time zone, and settings",
      description:
        'Merges the given fields into the settings; null removes a variable, and "" removes defaultFrom. Returns the account.',
      body: { schema: settingsPatchSchema, optional: true, furtherIssues: settingsIssues },
      response: { status: 200, schema: bodies.accountSchema },
      handle: async (request) => {
        const { caller, body } = request;
        const changes = requestedChanges(database, request, options.clock.now());
        const patched = await patchSettings(changes, caller.account.id, body);
        if (!patched.ok) return patched;
        options.callers.evictAccount(caller.account.id);
        options.logins.evictAccount(caller.account.id);
        return accountAnswer(patched.value, caller);
      },
    }),
    route({
      method: 'GET',
      path: '/account/health',
      tag: 'account',
      access: { auth: 'key' },
      operationId: 'getAccountHealth',
      summary: 'Get delivery, bounce, and complaint rates of the last 7 days',
      description:
        'Bounce and complaint rates over the last 7 days compared with the thresholds of large mailbox providers, for the mode of the key, and the state of sending protection for live mail. A rate is evaluated only above its minimum number of messages.',
      response: { status: 200, schema: bodies.healthSchema },
      handle: async ({ caller: { account, mode } }) => {
        const protection = await database.execute(sendingProtectionOperation, account.id);
        const health = await reader.health(account.id, mode, thresholdsOf(protection?.set ?? {}));
        return answer(bodies.healthBody(health, mode === 'live' && protection ? protection : undefined));
      },
    }),
    route({
      method: 'POST',
      path: '/account/resume-sending',
      tag: 'account',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'resumeSending',
      summary: 'Release held live mail',
      description:
        'Call this after you have fixed the cause. Releases the live mail that sending protection holds and restarts the bounce and complaint counts at zero. Returns 409 if no mail is held.',
      body: { schema: bodies.resumeRequest },
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

/** Returns the issues of a new key or credential that its schema cannot find. */
function grantIssues(
  {
    allowedSenders = [],
    allowedNetworks = [],
    expiresAt,
  }: {
    allowedSenders?: readonly (string | undefined)[];
    allowedNetworks?: readonly (string | undefined)[];
    expiresAt?: string;
  },
  clock: Clock,
): Issue[] {
  return [
    ...allowedSenderIssues(allowedSenders),
    ...allowedNetworkIssues(allowedNetworks),
    ...expiryIssues(expiresAt, clock),
  ];
}

function expiryIssues(expiresAt: string | undefined, clock: Clock): Issue[] {
  if (expiresAt === undefined || isoTimeMs(expiresAt) > clock.now()) return [];
  return [{ field: 'expiresAt', message: 'must be in the future' }];
}

/** Returns the expiry of a new key or credential: by default that of the caller's key, and never a later one (FORBIDDEN). */
function expiryOf({ expiresAt }: Caller, requested: string | undefined, clock: Clock): Result<number | null> {
  const issues = expiryIssues(requested, clock);
  if (issues.length > 0) return refuse(invalid(issues));
  const own = expiresAt ?? null;
  const wanted = requested === undefined ? own : isoTimeMs(requested);
  if (own === null || (wanted !== null && wanted <= own)) return ok(wanted);
  const message = `This key expires at ${iso(own)} and cannot create keys or credentials that expire later. Set expiresAt to that time or earlier.`;
  return refuse(failure('FORBIDDEN', { message }));
}

type Grant = Pick<ApiKeyRecord, 'allowedSenders' | 'allowedNetworks' | 'expiresAt'>;

/** Returns the restrictions of a new key or credential: by default those of the caller's key, and never weaker ones (FORBIDDEN). */
function grantOf(
  caller: Caller,
  requested: { allowedSenders?: string[]; allowedNetworks?: string[]; expiresAt?: string },
  clock: Clock,
): Result<Grant> {
  const senders = grantedSenders(caller.allowedSenders, requested.allowedSenders);
  if (!senders.ok) return senders;
  const networks = grantedNetworks(caller.allowedNetworks, requested.allowedNetworks);
  if (!networks.ok) return networks;
  const expiry = expiryOf(caller, requested.expiresAt, clock);
  if (!expiry.ok) return expiry;
  return ok({ allowedSenders: senders.value, allowedNetworks: networks.value, expiresAt: expiry.value });
}

/** Returns the networks that a change sets; undefined if it sets none. A key cannot allow networks outside its own (FORBIDDEN). */
function changedNetworks(caller: Caller, requested: string[] | undefined): Result<readonly string[] | undefined> {
  return requested === undefined ? ok(undefined) : grantedNetworks(caller.allowedNetworks, requested);
}

type WantedKey = NewKey & Grant;

async function keyAnswer(context: { database: Database; clock: Clock }, wanted: WantedKey): Promise<RouteAnswer> {
  const created = await createKey(context, wanted);
  if (!created.ok) return created;
  const { keyId, apiKey, createdAt } = created.value;
  const key = { ...wanted, id: keyId, accessKeyId: null, createdAt, ...bodies.NEVER_USED };
  return answer({ ...bodies.keyBody(key), apiKey });
}

function keyRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  const { database, clock, signingSecretKey: secretKey } = options;
  const signingKeyAnswer: typeof keyAnswer = async (context, wanted) => {
    if (secretKey === undefined)
      return refuse(
        invalid([{ field: 'kind', message: 'sigv4 requires the SES interface; set POSTRIDER_DOORS to ses' }]),
      );
    const created = await createSigningKey(context, { ...wanted, secretKey });
    if (!created.ok) return created;
    const { keyId, accessKeyId, secretAccessKey, createdAt } = created.value;
    const key = { ...wanted, id: keyId, accessKeyId, createdAt, ...bodies.NEVER_USED };
    return answer({ ...bodies.keyBody(key), secretAccessKey });
  };
  return [
    route({
      method: 'GET',
      path: '/api-keys',
      tag: 'account',
      access: { auth: 'key' },
      operationId: 'listApiKeys',
      summary: 'List active API keys, newest first',
      description: 'Lists the settings of each key, not the key itself, which is returned only when it is created.',
      query: pageQuery,
      response: { status: 200, schema: Type.Array(bodies.keySchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'key_',
          read: (page) => database.execute(keysOperation, { ...page, accountId: request.caller.account.id }),
          show: bodies.keyBody,
        }),
    }),
    route({
      method: 'POST',
      path: '/api-keys',
      tag: 'account',
      access: { auth: 'key', role: 'owner' },
      operationId: 'createApiKey',
      summary: 'Create an API key',
      description:
        "The secret is returned only in this response. By default the key has the caller's mode and full scope. A sandbox key can create sandbox keys only. Kind sigv4 requires the SES interface (POSTRIDER_DOORS).",
      body: { schema: bodies.newKeyRequest, optional: true, furtherIssues: (body) => grantIssues(body, clock) },
      refusals: ['LIMIT_REACHED'],
      response: { status: 201, schema: bodies.newKeySchema },
      handle: async (request) => {
        const { caller, body } = request;
        const { mode = caller.mode, scope = 'full', name = null, kind = 'api-key' } = body;
        if (!mayManage(caller, mode)) return refuse(LIVE_KEY_REQUIRED);
        const grant = grantOf(caller, body, clock);
        if (!grant.ok) return grant;
        const wanted = { mode, scope, name, ...grant.value, accountId: caller.account.id };
        const context = { database: requestedChanges(database, request, clock.now()), clock };
        return kind === 'sigv4' ? signingKeyAnswer(context, wanted) : keyAnswer(context, wanted);
      },
    }),
    route({
      method: 'PATCH',
      path: '/api-keys/:keyId',
      tag: 'account',
      access: { auth: 'key', role: 'owner' },
      operationId: 'updateApiKey',
      summary: 'Change the name or the networks of an API key',
      description:
        'Changes the fields in the request; omitted fields and null leave the stored value. New networks apply to the next request, on other nodes within a second. A sandbox key can change sandbox keys only.',
      body: {
        schema: bodies.keyChangeRequest,
        furtherIssues: ({ allowedNetworks = [] }) => allowedNetworkIssues(allowedNetworks),
      },
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: bodies.keySchema },
      handle: async (request) => {
        const { caller, params, body } = request;
        const networks = changedNetworks(caller, body.allowedNetworks);
        if (!networks.ok) return networks;
        const target = targetOf(caller, params.keyId ?? '');
        const changed = await requestedChanges(database, request, clock.now()).execute(updateKeyOperation, {
          ...target,
          name: body.name,
          allowedNetworks: networks.value,
        });
        options.callers.evictKey(target.id);
        return typeof changed === 'string' ? unchangedAnswer(changed, 'API key') : answer(bodies.keyBody(changed));
      },
    }),
    route({
      method: 'DELETE',
      path: '/api-keys/:keyId',
      tag: 'account',
      access: { auth: 'key', role: 'owner' },
      operationId: 'revokeApiKey',
      summary: 'Revoke an API key',
      description:
        'Takes effect with the next request, on other nodes within a second. A key can revoke itself. A sandbox key can revoke sandbox keys only.',
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
      method: 'GET',
      path: '/smtp-credentials',
      tag: 'account',
      access: { auth: 'key' },
      operationId: 'listSmtpCredentials',
      summary: 'List active SMTP credentials, newest first',
      description: 'Passwords are returned only when a credential is created.',
      query: pageQuery,
      response: { status: 200, schema: Type.Array(bodies.credentialSchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'smtp_',
          read: (page) => database.execute(credentialsOperation, { ...page, accountId: request.caller.account.id }),
          show: bodies.credentialBody,
        }),
    }),
    route({
      method: 'POST',
      path: '/smtp-credentials',
      tag: 'account',
      access: { auth: 'key', role: 'owner' },
      operationId: 'createSmtpCredential',
      summary: 'Create an SMTP credential',
      description:
        "The password is returned only in this response. By default the credential has the caller's mode. A sandbox key can create sandbox credentials only.",
      body: { schema: bodies.newCredentialRequest, optional: true, furtherIssues: (body) => grantIssues(body, clock) },
      refusals: ['PLAN_NOT_ELIGIBLE', 'LIMIT_REACHED'],
      response: { status: 201, schema: bodies.newCredentialSchema },
      handle: async (request) => {
        const { caller, body } = request;
        const { mode = caller.mode } = body;
        if (!mayManage(caller, mode)) return refuse(LIVE_KEY_REQUIRED);
        const grant = grantOf(caller, body, clock);
        if (!grant.ok) return grant;
        const { deliveryReports = 'off' } = body;
        const wanted = { mode, ...grant.value, deliveryReports };
        const created = await createSmtpCredential(
          { database: requestedChanges(database, request, clock.now()), clock },
          { ...wanted, accountId: caller.account.id },
        );
        if (!created.ok) return created;
        const { smtpCredentialId: id, username, password, createdAt } = created.value;
        const credential = { ...wanted, id, username, createdAt, ...bodies.NEVER_USED };
        return answer({ ...bodies.credentialBody(credential), password });
      },
    }),
    route({
      method: 'PATCH',
      path: '/smtp-credentials/:id',
      tag: 'account',
      access: { auth: 'key', role: 'owner' },
      operationId: 'updateSmtpCredential',
      summary: 'Change the networks of an SMTP credential',
      description:
        'New networks apply to the next login and to the next message of an open session, on other nodes within a second. A sandbox key can change sandbox credentials only.',
      body: {
        schema: bodies.credentialChangeRequest,
        furtherIssues: ({ allowedNetworks = [] }) => allowedNetworkIssues(allowedNetworks),
      },
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: bodies.credentialSchema },
      handle: async (request) => {
        const { caller, params, body } = request;
        const networks = changedNetworks(caller, body.allowedNetworks);
        if (!networks.ok) return networks;
        const target = targetOf(caller, params.id ?? '');
        const changed = await requestedChanges(database, request, clock.now()).execute(updateCredentialOperation, {
          ...target,
          allowedNetworks: networks.value,
        });
        logins.evictCredential(target.id);
        return typeof changed === 'string'
          ? unchangedAnswer(changed, 'SMTP credential')
          : answer(bodies.credentialBody(changed));
      },
    }),
    route({
      method: 'DELETE',
      path: '/smtp-credentials/:id',
      tag: 'account',
      access: { auth: 'key', role: 'owner' },
      operationId: 'revokeSmtpCredential',
      summary: 'Revoke an SMTP credential',
      description:
        'Takes effect with the next login and the next message of an open session, on other nodes within a second.',
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
const TOO_MANY_PENDING = `This account already has ${MAXIMUM_PENDING} pending requests. Ask the operator to approve or reject them first.`;

const requestedEmailBytes = Type.Integer({
  minimum: STANDARD_EMAIL_BYTES + 1,
  maximum: MAXIMUM_EMAIL_BYTES,
  description: 'Size in bytes of the largest complete email that the account wants to send.',
});
const reason = Type.String({
  minLength: 1,
  maxLength: 2_000,
  pattern: '^(?=[\\s\\S]*\\S)[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$',
  phrase: 'must have visible characters and no control characters',
  description: 'Reason for the request, for the operator who decides.',
});

const approvalSchema = named('Approval', {
  approvalId: Type.String(),
  requestedEmailBytes: Type.Integer(),
  reason: Type.String(),
  status: oneOf(['pending', 'approved', 'rejected']),
  decisionReason: Type.Optional(Type.String()),
  createdAt: Type.String({ format: 'date-time' }),
});

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
  const common = { path: '/approvals', tag: 'account', access: { auth: 'key' } } as const;
  return [
    route({
      ...common,
      method: 'GET',
      operationId: 'listApprovals',
      summary: 'List requests for a larger email size, newest first',
      description:
        'Each request has a status (pending, approved, or rejected) and, once decided, the reason given by the operator.',
      query: pageQuery,
      response: { status: 200, schema: Type.Array(approvalSchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'apr_',
          read: (page) => database.execute(approvalsOperation, { ...page, accountId: request.caller.account.id }),
          show: approvalBody,
        }),
    }),
    route({
      ...common,
      method: 'POST',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'requestApproval',
      summary: 'Request a larger email size',
      description: 'The operator decides. An approved limit takes effect immediately; GET /account returns it.',
      body: { schema: named('ApprovalRequest', { requestedEmailBytes, reason }) },
      response: { status: 201, schema: approvalSchema },
      refusals: ['CONFLICT'],
      handle: async (request) => {
        const { caller, body } = request;
        const nowMs = clock.now();
        const approval = { ...body, id: newId('apr', nowMs), accountId: caller.account.id };
        const input = { ...approval, nowMs, maximumPending: MAXIMUM_PENDING };
        if (!(await requestedChanges(database, request, nowMs).execute(requestApprovalOperation, input)))
          return refuse(failure('CONFLICT', { message: TOO_MANY_PENDING }));
        return answer(approvalBody({ ...approval, status: 'pending', decisionReason: null, createdAt: nowMs }));
      },
    }),
  ];
}

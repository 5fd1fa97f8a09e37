/**
 * The account's own HTTP surface: the account and its settings, API keys, SMTP credentials. All of it concerns the caller's
 * account alone; keys, credentials and settings are shared by both modes, usage and health are those of the key's mode.
 */
import { type TSchema, Type } from 'typebox';
import type { Clock } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { refuse } from '../base/result.ts';
import { type Page, type PartShape, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, NO_LIVE_POWER, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import { closed, confirmationSchema } from '../http/validate.ts';
import type { Database } from '../storage/database.ts';
import type { Account, Caller } from './account.ts';
import type { PageRequest, Revocation, Revoked } from './account-row.ts';
import { allowedSenderIssues, handedOn } from './allowed-senders.ts';
import type { KnownCallers } from './authenticate.ts';
import * as bodies from './bodies.ts';
import { createKey, createSmtpCredential } from './create.ts';
import { credentialsOperation, revokeCredentialOperation } from './credential-store.ts';
import { keysOperation, revokeKeyOperation } from './key-store.ts';
import { patchSettings, settingsIssues, settingsPatchSchema } from './settings.ts';
import type { KnownLogins } from './smtp-authenticate.ts';
import { accountOperation } from './store.ts';
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
  if (revoked === 'revoked') return answer({ message: `The ${what} is revoked.` });
  if (revoked === 'other-mode') return refuse(NO_LIVE_POWER);
  return refuse(failure('NOT_FOUND', { message: `There is no such ${what}.` }));
}

export interface AccountRouteOptions {
  database: Database;
  clock: Clock;
  /** What authentication remembers: a revoked key and a changed setting are to be felt by the very next request. */
  callers: KnownCallers;
  /** The same for log-ins over SMTP in this process. */
  logins: KnownLogins;
}

/** GET and PATCH /account, GET /account/health, /api-keys, /smtp-credentials. */
export function accountRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  return [...settingsRoutes(options), ...keyRoutes(options), ...credentialRoutes(options)];
}

function settingsRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  const { database } = options;
  const reader = createUsageReader(options);
  const shown = async (account: Account, caller: Caller) =>
    answer(bodies.accountBody(account, await reader.usage(account.id, caller.mode)));
  return [
    route({
      ...{ method: 'GET', path: '/account', tag: 'account', auth: 'key' },
      operationId: 'getAccount',
      summary: 'The account: plan, limits, usage, settings',
      description: 'limits are what this account may have at most; usage counts the mode of the key.',
      response: { status: 200, schema: bodies.accountSchema },
      // Read afresh: the caller's copy may be a moment old, and a setting just made is to be seen.
      handle: async ({ caller }) =>
        shown((await database.execute(accountOperation, caller.account.id)) ?? caller.account, caller),
    }),
    route({
      ...{ method: 'PATCH', path: '/account', tag: 'account', auth: 'key', changesShared: true },
      operationId: 'updateAccount',
      summary: "Change the account's settings",
      description:
        'Merged into what is there: only what is given changes, null removes a variable. Answers the account.',
      body: settingsPatchSchema,
      bodyOptional: true,
      furtherIssues: settingsIssues,
      response: { status: 200, schema: bodies.accountSchema },
      handle: async ({ caller, body }) => {
        const patched = await patchSettings(database, caller.account.id, body);
        if (!patched.ok) return patched;
        options.callers.evictAccount(caller.account.id);
        options.logins.evictAccount(caller.account.id);
        return shown(patched.value, caller);
      },
    }),
    route({
      ...{ method: 'GET', path: '/account/health', tag: 'account', auth: 'key' },
      operationId: 'getAccountHealth',
      summary: 'How mail of the last seven days fared',
      description: 'Rates of bounces and complaints over the last seven days, for live mail.',
      response: { status: 200, schema: bodies.healthSchema },
      handle: async ({ caller }) => answer(await reader.health(caller.account.id, caller.mode)),
    }),
  ];
}

function keyRoutes(options: AccountRouteOptions): RouteDefinition<Caller>[] {
  const { database, clock } = options;
  return [
    route({
      ...{ method: 'GET', path: '/api-keys', tag: 'account', auth: 'key' },
      operationId: 'listApiKeys',
      summary: 'API keys that are in force, newest first',
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
      ...{ method: 'POST', path: '/api-keys', tag: 'account', auth: 'key' },
      operationId: 'createApiKey',
      summary: 'Make an API key',
      description:
        "The key itself is shown in this answer only. Without a choice it is of the caller's mode and of full scope. A sandbox key makes sandbox keys only.",
      body: bodies.newKeyRequest,
      furtherIssues: ({ allowedSenders = [] }) => allowedSenderIssues(allowedSenders),
      bodyOptional: true,
      refusals: ['LIMIT_REACHED'],
      response: { status: 201, schema: bodies.newKeySchema },
      handle: async ({ caller, body }) => {
        const { mode = caller.mode, scope = 'full', name = null } = body;
        if (!mayManage(caller, mode)) return refuse(NO_LIVE_POWER);
        const senders = handedOn(caller.allowedSenders, body.allowedSenders);
        if (!senders.ok) return senders;
        const wanted = { mode, scope, name, allowedSenders: senders.value };
        const made = await createKey({ database, clock }, { ...wanted, accountId: caller.account.id });
        if (!made.ok) return made;
        const { keyId, apiKey, createdAt } = made.value;
        return answer({ ...bodies.keyBody({ ...wanted, id: keyId, createdAt }), apiKey });
      },
    }),
    route({
      ...{ method: 'DELETE', path: '/api-keys/:keyId', tag: 'account', auth: 'key' },
      operationId: 'revokeApiKey',
      summary: 'Revoke an API key',
      description:
        'It is refused from the next request on. A key may revoke itself. A sandbox key revokes sandbox keys only.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async ({ caller, params }) => {
        const keyId = params.keyId ?? '';
        const revoked = await database.execute(revokeKeyOperation, revocationOf(caller, keyId, clock));
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
      summary: 'SMTP credentials that are in force, newest first',
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
      ...{ method: 'POST', path: '/smtp-credentials', tag: 'account', auth: 'key' },
      operationId: 'createSmtpCredential',
      summary: 'Make an SMTP credential',
      description:
        "The password is shown in this answer only. Without a choice it is of the caller's mode. A sandbox key makes sandbox credentials only.",
      body: bodies.newCredentialRequest,
      furtherIssues: ({ allowedSenders = [] }) => allowedSenderIssues(allowedSenders),
      bodyOptional: true,
      refusals: ['PLAN_NOT_ELIGIBLE', 'LIMIT_REACHED'],
      response: { status: 201, schema: bodies.newCredentialSchema },
      handle: async ({ caller, body }) => {
        const { mode = caller.mode } = body;
        if (!mayManage(caller, mode)) return refuse(NO_LIVE_POWER);
        const senders = handedOn(caller.allowedSenders, body.allowedSenders);
        if (!senders.ok) return senders;
        const wanted = { mode, allowedSenders: senders.value };
        const made = await createSmtpCredential({ database, clock }, { ...wanted, accountId: caller.account.id });
        if (!made.ok) return made;
        const { smtpCredentialId: id, username, password, createdAt } = made.value;
        return answer({ ...bodies.credentialBody({ ...wanted, id, username, createdAt }), password });
      },
    }),
    route({
      ...{ method: 'DELETE', path: '/smtp-credentials/:id', tag: 'account', auth: 'key' },
      operationId: 'revokeSmtpCredential',
      summary: 'Revoke an SMTP credential',
      description:
        'Log-ins are refused from now on, and so is the next mail of an open session; on other nodes within a second.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async ({ caller, params }) => {
        const id = params.id ?? '';
        const revoked = await database.execute(revokeCredentialOperation, revocationOf(caller, id, clock));
        logins.evictCredential(id);
        return revokedAnswer(revoked, 'SMTP credential');
      },
    }),
  ];
}

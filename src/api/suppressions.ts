/** HTTP routes of the suppression list of an account, in the mode of the key: list, add, check, remove, export, and import. */
import type { Static, TSchema } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { recordChangeOperation, requestedChanges } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { type PageKey, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, isoTimeMs, named, oneOf } from '../http/validate.ts';
import { parseAddress, sameAddressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import type { Found, Searches } from '../storage/searches.ts';
import { readSuppressions, suppressionsCsv } from '../suppressions/csv.ts';
import {
  type AddressHash,
  findSuppressionOperation,
  importOperation,
  type ListKey,
  SUPPRESSION_REASONS,
  type Suppression,
  type SuppressionPage,
  searchSuppressionsOperation,
  suppressionsByEmailOperation,
  suppressionsOperation,
  suppressOperation,
  unsuppressOperation,
} from '../suppressions/suppressions.ts';

const route = <B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<Caller, B, Q>,
): RouteDefinition<Caller> => defineRoute(definition);

const IMPORT_MAX_BYTES = 5_000_000;
/** Rows per transaction, so that an import does not delay sending. */
const IMPORT_BATCH = 500;
const EXPORT_BATCH = 2_000;

const reason = oneOf([...SUPPRESSION_REASONS], { description: 'Reason for the suppression.' });
const nullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] });
const suppressionSchema = named('Suppression', {
  email: Type.String({ description: 'In lower case, as addresses are compared.' }),
  reason,
  sourceMessageId: nullableText,
  expiresAt: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' }),
  createdAt: Type.String({ format: 'date-time' }),
});

const newSuppression = named('SuppressionRequest', {
  email: Type.String({ minLength: 1, maxLength: 320 }),
  reason: Type.Optional(reason),
  expiresAt: Type.Optional(Type.String({ format: 'date-time', maxLength: 64 })),
});

function body(one: Suppression): Record<string, unknown> {
  return {
    email: one.email,
    reason: one.reason,
    sourceMessageId: one.sourceMessageId,
    expiresAt: one.expiresAt === null ? null : new Date(one.expiresAt).toISOString(),
    createdAt: new Date(one.createdAt).toISOString(),
  };
}

const listKeyOf = (caller: Caller): ListKey => ({ accountId: caller.account.id, mode: caller.mode });

type NewSuppression = Static<typeof newSuppression>;

function emailIssue(email: string): string | undefined {
  const address = parseAddress(email);
  if (!address.ok) return address.reason;
  return address.value.name === '' ? undefined : 'must be a bare address without a display name';
}

/** Returns the issues that the schema cannot find. */
function issuesOf({ email, expiresAt }: Partial<NewSuppression>, nowMs: number): Issue[] {
  const issues: Issue[] = [];
  const issue = email === undefined ? undefined : emailIssue(email);
  if (issue !== undefined) issues.push({ field: 'email', message: issue });
  if (expiresAt !== undefined && isoTimeMs(expiresAt) <= nowMs)
    issues.push({ field: 'expiresAt', message: 'must be in the future' });
  return issues;
}

function readNew(request: NewSuppression, nowMs: number): Result<Suppression> {
  const issues = issuesOf(request, nowMs);
  const address = parseAddress(request.email);
  if (!address.ok || issues.length > 0) return refuse(invalid(issues));
  return ok({
    email: sameAddressKey(address.value),
    reason: request.reason ?? 'manual',
    sourceMessageId: null,
    expiresAt: request.expiresAt === undefined ? null : isoTimeMs(request.expiresAt),
    createdAt: nowMs,
  });
}

interface SuppressionRouteDeps {
  database: Database;
  clock: Clock;
  searches: Searches;
  addressHash: AddressHash;
}

/** Returns the routes of /suppressions, /suppressions.csv, and /suppressions/import. */
export function suppressionRoutes(options: SuppressionRouteDeps): RouteDefinition<Caller>[] {
  return [...listRoutes(options), ...csvRoutes(options)];
}

const listQuery = closed({
  email: Type.Optional(
    Type.String({ minLength: 1, maxLength: 320, description: 'Part of the address (case-insensitive).' }),
  ),
  reason: Type.Optional(reason),
  ...pageFields,
});

const notSuppressed = refuse(failure('NOT_FOUND', { message: 'This address is not on the suppression list.' }));

/** Normalizes a filter as the list stores addresses, so that a complete address matches in any spelling. */
function normalizedFilter(part: string | undefined): string | null {
  if (part === undefined) return null;
  return parseAddress(part).ok ? sameAddressKey(part) : part.normalize('NFC').toLowerCase();
}

/** Returns the address in a path, normalized. */
const keyOf = (params: Readonly<Record<string, string>>): string => sameAddressKey((params.email ?? '').trim());

async function readList(
  { database, searches }: SuppressionRouteDeps,
  page: SuppressionPage,
  signal: AbortSignal,
): Promise<Found<Suppression, NonNullable<SuppressionPage['after']>>> {
  if (!page.email && !page.reason) {
    return { rows: await database.execute(suppressionsOperation, page), stoppedAt: null };
  }
  return searches.run({
    accountId: page.accountId,
    limit: page.limit,
    from: page.after,
    signal,
    read: ({ from, rows, limit }) =>
      database.execute(searchSuppressionsOperation, { page: { ...page, after: from, limit }, rows }),
  });
}

const placeOf = ({ createdAt, email }: Pick<Suppression, 'createdAt' | 'email'>): PageKey => [createdAt, email];

function listRoutes(deps: SuppressionRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, addressHash } = deps;
  const addressOf = (caller: Caller, email: string) => ({
    ...listKeyOf(caller),
    email,
    addressHash: addressHash(caller.account.id, email),
  });
  return [
    route({
      method: 'GET',
      path: '/suppressions',
      tag: 'suppressions',
      access: { auth: 'key' },
      operationId: 'listSuppressions',
      summary: 'List suppressed addresses, newest first',
      description:
        'Lists addresses in the mode of the key. Addresses are case-insensitive. Erased addresses are not listed, because only their hashes are stored.',
      query: listQuery,
      response: { status: 200, schema: Type.Array(suppressionSchema) },
      handle: async (request) => {
        const page = readPage(request.query, ['number', 'string']);
        if (!page.ok) return page;
        const [createdAt, email] = (page.value.after ?? []) as [number?, string?];
        const requested: SuppressionPage = {
          ...listKeyOf(request.caller),
          nowMs: clock.now(),
          after: createdAt === undefined || email === undefined ? null : { createdAt, email },
          limit: page.value.limit + 1,
          email: normalizedFilter(request.query.email),
          reason: request.query.reason ?? null,
        };
        const { rows, stoppedAt } = await readList(deps, requested, request.signal);
        return pageAnswer(request, {
          page: page.value,
          rows,
          stoppedAt: stoppedAt && placeOf(stoppedAt),
          keyOf: placeOf,
          show: body,
        });
      },
    }),
    route({
      method: 'POST',
      path: '/suppressions',
      tag: 'suppressions',
      access: { auth: 'key' },
      operationId: 'suppressAddress',
      summary: 'Suppress an address',
      description:
        'If the address is already on the list, the stronger reason and the later expiry are kept; remove it first to weaken it. Without expiresAt it stays until it is removed. The address of an erased recipient is not stored again.',
      body: { schema: newSuppression, furtherIssues: (fields) => issuesOf(fields, clock.now()) },
      response: { status: 201, schema: suppressionSchema },
      handle: async (request) => {
        const read = readNew(request.body, clock.now());
        if (!read.ok) return read;
        const kept = await requestedChanges(database, request, clock.now()).execute(suppressOperation, {
          ...listKeyOf(request.caller),
          suppression: read.value,
          addressHash: addressHash(request.caller.account.id, read.value.email),
        });
        return answer(body(kept));
      },
    }),
    route({
      method: 'GET',
      path: '/suppressions/:email',
      tag: 'suppressions',
      access: { auth: 'key' },
      operationId: 'getSuppression',
      summary: 'Check whether an address is suppressed, and why',
      description: 'Returns 404 if the address is not on the list.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: suppressionSchema },
      handle: async ({ caller, params }) => {
        const entry = { ...addressOf(caller, keyOf(params)), nowMs: clock.now() };
        const found = await database.execute(findSuppressionOperation, entry);
        return found ? answer(body(found)) : notSuppressed;
      },
    }),
    route({
      method: 'DELETE',
      path: '/suppressions/:email',
      tag: 'suppressions',
      access: { auth: 'key' },
      operationId: 'deleteSuppression',
      summary: 'Remove an address from the suppression list',
      description: 'Postrider sends later messages to the address again.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        const { caller, params } = request;
        const entry = { ...addressOf(caller, keyOf(params)), nowMs: clock.now() };
        const removed = await requestedChanges(database, request, clock.now()).execute(unsuppressOperation, entry);
        return removed ? answer({ message: 'Address removed from the suppression list.' }) : notSuppressed;
      },
    }),
  ];
}

function csvRoutes({ database, clock, addressHash }: SuppressionRouteDeps): RouteDefinition<Caller>[] {
  return [
    route({
      method: 'GET',
      path: '/suppressions.csv',
      tag: 'suppressions',
      access: { auth: 'key' },
      operationId: 'exportSuppressions',
      summary: 'Export the list as CSV',
      description:
        'The columns are email, reason, sourceMessageId, expiresAt, and createdAt. POST /suppressions/import accepts the file.',
      response: { status: 200, contentType: 'text/csv; charset=utf-8' },
      handle: ({ caller }) => ({
        ok: true,
        contentType: 'text/csv; charset=utf-8',
        headers: { 'Content-Disposition': 'attachment; filename="suppressions.csv"' },
        content: suppressionsCsv((after) =>
          database.execute(suppressionsByEmailOperation, {
            ...listKeyOf(caller),
            nowMs: clock.now(),
            after,
            limit: EXPORT_BATCH,
          }),
        ),
      }),
    }),
    route({
      method: 'POST',
      path: '/suppressions/import',
      tag: 'suppressions',
      access: { auth: 'key' },
      operationId: 'importSuppressions',
      summary: 'Import addresses from CSV',
      description:
        'The columns are email and, optionally, reason and expiresAt. A header line is optional. All lines are checked before the first is stored. Lines that change nothing are skipped.',
      body: { type: 'text/csv', maxBytes: IMPORT_MAX_BYTES },
      response: {
        status: 200,
        schema: named('SuppressionImport', { imported: Type.Integer(), skipped: Type.Integer() }),
      },
      handle: async (request) => {
        const nowMs = clock.now();
        const read = await readSuppressions((request.body as unknown as string | undefined) ?? '', nowMs);
        if (!read.ok) return read;
        const { suppressions, skipped } = read.value;
        await requestedChanges(database, request, nowMs).execute(recordChangeOperation, {
          action: 'suppression.import',
          resourceId: null,
          requested: { addresses: suppressions.length },
        });
        let imported = 0;
        for (let i = 0; i < suppressions.length; i += IMPORT_BATCH) {
          const batch = suppressions
            .slice(i, i + IMPORT_BATCH)
            .map((one) => ({ ...one, addressHash: addressHash(request.caller.account.id, one.email) }));
          imported += await database.execute(importOperation, {
            ...listKeyOf(request.caller),
            nowMs,
            suppressions: batch,
          });
        }
        return answer({ imported, skipped: suppressions.length - imported + skipped });
      },
    }),
  ];
}

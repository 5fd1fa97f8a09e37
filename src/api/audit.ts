/**
 * GET /audit: who changed what, when, and from where, also as CSV and JSON lines. A sandbox key only gets entries that concern the sandbox.
 */
import { Readable } from 'node:stream';
import type { Static } from 'typebox';
import { type AuditPage, type AuditRow, auditOperation } from '../audit/store.ts';
import { iso } from '../base/clock.ts';
import { csvLine } from '../base/csv.ts';
import { idFloor } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { type IdPage, listById, type PageQuery, pageFields } from '../http/paging.ts';
import { type CallerKey, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import { sameAddressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';

const nullable = (schema = Type.String()) => Type.Union([schema, Type.Null()]);
const time = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }));
const text = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 320, description }));

const auditFilters = {
  action: text('Entries of one action, such as webhook.replace.'),
  resource: text('Entries of one kind of resource, such as webhook.'),
  resourceId: text('Entries of one resource. Changes of a suppression are found by its email address.'),
  actorId: text('Entries of one user or key.'),
  since: time('Start of the period, inclusive.'),
  until: time('End of the period, inclusive.'),
};
const operatorFilters = { accountId: text('Entries of one account.'), ...auditFilters };
type AuditFilters = Static<ReturnType<typeof closed<typeof auditFilters>>> & { accountId?: string };

const shown = Type.Unsafe<Record<string, unknown> | null>({
  type: ['object', 'null'],
  additionalProperties: true,
  description: 'Fields of the resource, without secrets. Long texts are truncated.',
});

const auditSchema = named('AuditEntry', {
  auditId: Type.String(),
  time: Type.String({ format: 'date-time' }),
  accountId: nullable(),
  mode: nullable(Type.String({ description: 'Null if the change concerns both modes.' })),
  actor: closed({
    kind: oneOf(['user', 'key', 'credential', 'command-line', 'system']),
    id: nullable(),
    name: nullable(),
  }),
  address: nullable(Type.String({ description: 'IP address of the client.' })),
  requestId: nullable(),
  action: Type.String(),
  resource: Type.String(),
  resourceId: nullable(),
  before: shown,
  after: shown,
});

function auditBody(row: AuditRow) {
  const { id, at, actorKind, actorId, actorName, beforeChange, afterChange, ...others } = row;
  return {
    auditId: id,
    time: iso(at),
    ...others,
    actor: { kind: actorKind, id: actorId, name: actorName },
    before: beforeChange === null ? null : (JSON.parse(beforeChange) as object),
    after: afterChange === null ? null : (JSON.parse(afterChange) as object),
  };
}

/** Ids start with the time, so a time range is an id range. */
function pageOf(of: LogOf, filters: AuditFilters, { before, limit }: IdPage): AuditPage {
  const { since, until, action = null, resource = null, resourceId = null, actorId = null } = filters;
  const untilId = until === undefined ? 'aud_~' : idFloor('aud', Math.max(0, isoTimeMs(until)) + 1);
  const fromId = since === undefined ? '' : idFloor('aud', Math.max(0, isoTimeMs(since)));
  const belowId = before !== null && before < untilId ? before : untilId;
  const { accountId, mode, resourceIds } = of;
  return {
    accountId,
    mode,
    action,
    resource,
    resourceIds: resourceId === null ? null : resourceIds(resourceId),
    actorId,
    fromId,
    belowId,
    limit,
  };
}

/** The log that a caller reads. */
interface LogOf extends Pick<AuditPage, 'accountId' | 'mode'> {
  /** Returns the ids under which a resource is recorded: entries name an address by its hash, earlier ones as it is. */
  resourceIds(id: string): readonly [string, string];
}

/** Returns a page of the log, of one account or (null) of all. */
function auditPage(
  database: Database,
  of: LogOf,
  request: { readonly url: string; readonly query: AuditFilters & PageQuery },
) {
  return listById(request, {
    prefix: 'aud_',
    read: (page) => database.execute(auditOperation, pageOf(of, request.query, page)),
    show: auditBody,
  });
}

const EXPORT_BATCH = 500;
const CSV_COLUMNS = [
  'auditId',
  'time',
  'accountId',
  'mode',
  'actorKind',
  'actorId',
  'actorName',
  'address',
  'requestId',
  'action',
  'resource',
  'resourceId',
  'before',
  'after',
];

/** Streams the entire log, newest first. */
function auditExport(
  database: Database,
  of: LogOf,
  { filters, format }: { filters: AuditFilters; format: 'csv' | 'jsonl' },
): Readable {
  async function* chunks(): AsyncGenerator<string> {
    if (format === 'csv') yield csvLine(CSV_COLUMNS);
    for (let before: string | null = null; ; ) {
      const rows: AuditRow[] = await database.execute(
        auditOperation,
        pageOf(of, filters, { before, limit: EXPORT_BATCH }),
      );
      if (rows.length === 0) return;
      yield rows.map(format === 'csv' ? csvOf : jsonOf).join('');
      before = rows.at(-1)!.id;
    }
  }
  return Readable.from(chunks(), { objectMode: false });
}

const jsonOf = (row: AuditRow): string => `${JSON.stringify(auditBody(row))}\n`;

function csvOf({ id, at, beforeChange, afterChange, ...row }: AuditRow): string {
  return csvLine([
    id,
    iso(at),
    row.accountId,
    row.mode,
    row.actorKind,
    row.actorId,
    row.actorName,
    row.address,
    row.requestId,
    row.action,
    row.resource,
    row.resourceId,
    beforeChange,
    afterChange,
  ]);
}

interface AuditCaller extends CallerKey {
  account: { id: string };
  mode: Mode;
}

/** Returns the keyed hash of an address of an account, which entries have instead of the address. */
type HashAddress = (accountId: string, email: string) => string;

function ownLog({ account, mode }: AuditCaller, addressHash: HashAddress): LogOf {
  return {
    accountId: account.id,
    mode: mode === 'sandbox' ? mode : null,
    resourceIds: (id) => [id, id.includes('@') ? addressHash(account.id, sameAddressKey(id)) : id],
  };
}

const EXPORTS = [
  { format: 'csv', contentType: 'text/csv; charset=utf-8', name: 'CSV' },
  { format: 'jsonl', contentType: 'application/jsonl; charset=utf-8', name: 'JSON lines' },
] as const;

/** Which log the routes return, and its name. */
interface LogRoutes<C> {
  auth: 'key' | 'operator';
  tag: string;
  path: string;
  /** Used in operationIds. */
  noun: string;
  summary: string;
  description: string;
  filters: typeof auditFilters;
  of(caller: C, filters: AuditFilters): LogOf;
}

export function auditRoutes<C extends AuditCaller>({
  database,
  addressHash,
}: {
  database: Database;
  addressHash: HashAddress;
}): RouteDefinition<C>[] {
  return logRoutes<C>(database, {
    auth: 'key',
    tag: 'audit',
    path: '/audit',
    noun: 'Audit',
    summary: 'List changes, newest first',
    description:
      'Returns one entry per change of this account: who made it (user, key, command line, or the service itself), from where, and the values before and after. Entries cannot be changed and are kept for 400 days.',
    filters: auditFilters,
    of: (caller) => ownLog(caller, addressHash),
  });
}

/** The log of all accounts, for operators. */
export function operatorAuditRoutes<C>({ database }: { database: Database }): RouteDefinition<C>[] {
  return logRoutes<C>(database, {
    auth: 'operator',
    tag: 'operator',
    path: '/operator/audit',
    noun: 'ServiceAudit',
    summary: 'List changes in all accounts, newest first',
    description: 'Like GET /audit, for all accounts and the service itself.',
    filters: operatorFilters,
    of: (_caller, { accountId = null }) => ({ accountId, mode: null, resourceIds: (id) => [id, id] }),
  });
}

function logRoutes<C>(database: Database, log: LogRoutes<C>): RouteDefinition<C>[] {
  const { auth, tag, path, noun, summary, description, filters, of } = log;
  return [
    defineRoute({
      method: 'GET',
      path,
      tag,
      access: { auth },
      operationId: `list${noun}Entries`,
      summary,
      description,
      query: closed({ ...filters, ...pageFields }),
      response: { status: 200, schema: Type.Array(auditSchema) },
      handle: (request: RouteRequest<C, undefined, AuditFilters & PageQuery>) =>
        auditPage(database, of(request.caller, request.query), request),
    }),
    ...EXPORTS.map(({ format, contentType, name }) =>
      defineRoute({
        method: 'GET',
        path: `${path}.${format}`,
        tag,
        access: { auth },
        operationId: `export${noun}As${format === 'csv' ? 'Csv' : 'JsonLines'}`,
        summary: `Export the audit log as ${name}`,
        description: `Returns the same entries as GET ${path}, with the same filters and without pagination.`,
        query: closed(filters),
        response: { status: 200, contentType },
        handle: ({ caller, query }: RouteRequest<C, undefined, AuditFilters>) => ({
          ok: true as const,
          contentType,
          headers: { 'Content-Disposition': `attachment; filename="audit.${format}"` },
          content: auditExport(database, of(caller, query), { filters: query, format }),
        }),
      }),
    ),
  ] as RouteDefinition<C>[];
}

/**
 * /suppressions: the suppression list in the mode of the key. Postrider's entries have no ids: the UUID of an entry is derived from its
 * time and its address, so that it can be found without a table.
 */
import { hash } from 'node:crypto';
import type { Static } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { ok, type Result } from '../../base/failure.ts';
import { isUuid, timeOfUuid, uuidAt, uuidOf } from '../../base/uuid-id.ts';
import { cursorOf } from '../../http/paging.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  NOT_FOUND,
  open,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';
import { list } from './lists.ts';

interface SuppressionBody {
  email: string;
  reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  sourceMessageId: string | null;
  createdAt: string;
}

const NO_ENTRY = NOT_FOUND('Suppression');
const PAGE = 100;

function uuidOfEntry({ email, createdAt }: SuppressionBody): string {
  return uuidAt(Date.parse(createdAt), hash('sha256', email, 'buffer'));
}

function shown(entry: SuppressionBody): Record<string, unknown> {
  const { email, reason, sourceMessageId, createdAt } = entry;
  const origin = reason === 'unsubscribe' ? 'manual' : reason;
  const source = sourceMessageId === null ? null : uuidOf(sourceMessageId);
  return { id: uuidOfEntry(entry), email, origin, source_id: source, created_at: createdAt };
}

/** Finds the entry with this UUID among those that were added at its time. */
async function findByUuid({ call }: EndpointContext, uuid: string): Promise<Result<SuppressionBody | undefined>> {
  const atMs = timeOfUuid(uuid);
  if (atMs === undefined) return ok(undefined);
  for (let cursor: string | undefined = cursorOf([atMs + 1, '']); cursor !== undefined; ) {
    const page = await call('GET', '/suppressions', { query: { cursor, limit: PAGE } });
    if (!page.ok) return page;
    const rows = page.body as SuppressionBody[];
    const found = rows.find((one) => uuidOfEntry(one) === uuid.toLowerCase());
    if (found !== undefined) return ok(found);
    const last = rows.at(-1);
    const isPast = last === undefined || Date.parse(last.createdAt) < atMs;
    cursor = isPast ? undefined : (page.headers['X-Next-Cursor'] as string | undefined);
  }
  return ok(undefined);
}

/** Finds the entry with this UUID or address. */
async function find(context: EndpointContext, name: string): Promise<Result<SuppressionBody>> {
  if (isUuid(name)) {
    const found = await findByUuid(context, name);
    if (!found.ok) return found;
    return found.value === undefined ? NO_ENTRY : ok(found.value);
  }
  const found = await context.call('GET', `/suppressions/${encodeURIComponent(name)}`);
  return found.ok ? ok(found.body as SuppressionBody) : found.failure.code === 'NOT_FOUND' ? NO_ENTRY : found;
}

async function add({ call }: EndpointContext, email: string): Promise<Result<{ object: 'suppression'; id: string }>> {
  const added = await call('POST', '/suppressions', { body: { email } });
  return added.ok ? ok({ object: 'suppression', id: uuidOfEntry(added.body) }) : added;
}

async function remove(
  context: EndpointContext,
  name: string,
): Promise<Result<{ object: string; id: string; deleted: boolean }>> {
  const found = await find(context, name);
  if (!found.ok) return found;
  const removed = await context.call('DELETE', `/suppressions/${encodeURIComponent(found.value.email)}`);
  return removed.ok ? ok({ object: 'suppression', id: uuidOfEntry(found.value), deleted: true }) : removed;
}

const MOST = 100;
const many = Type.Array(Type.String({ minLength: 1, maxLength: 320 }), { minItems: 1, maxItems: MOST });
const removal = open({ emails: Type.Optional(many), ids: Type.Optional(many) });

async function addMany(context: EndpointContext<{ emails: string[] }>): Promise<EndpointAnswer> {
  const data: unknown[] = [];
  for (const [index, email] of context.body.emails.entries()) {
    const added = await add(context, email);
    if (!added.ok) return invalidField(`emails[${index}]`, added.failure.details[0]?.message ?? added.failure.message);
    data.push(added.value);
  }
  return success({ data });
}

/** Removes entries; addresses and ids that are not on the list are missing in the response. */
async function removeMany(context: EndpointContext<Static<typeof removal>>): Promise<EndpointAnswer> {
  const { emails, ids } = context.body;
  if ((emails === undefined) === (ids === undefined)) return invalidField('emails', 'or ids is required, but not both');
  const data: unknown[] = [];
  for (const name of emails ?? ids ?? []) {
    const removed = await remove(context, name);
    if (removed.ok) data.push(removed.value);
    else if (removed.failure.code !== 'NOT_FOUND') return removed;
  }
  return success({ data });
}

function listEntries(context: EndpointContext): Promise<EndpointAnswer> {
  const origin = context.query.get('origin') ?? undefined;
  if (origin !== undefined && !['bounce', 'complaint', 'manual'].includes(origin))
    return Promise.resolve(invalidField('origin', 'must be bounce, complaint or manual'));
  const entries = new Map<string, SuppressionBody>();
  return resolveKey(context, entries).then((resolved) =>
    resolved.ok
      ? list<SuppressionBody>(context, {
          path: '/suppressions',
          query: { reason: origin },
          keyOf: (id) => {
            const entry = entries.get(id);
            return entry === undefined ? undefined : [Date.parse(entry.createdAt), entry.email];
          },
          idOf: uuidOfEntry,
          show: shown,
        })
      : resolved,
  );
}

/** Finds the entry of `after` or `before`, because the list is sorted by time and address. */
async function resolveKey(context: EndpointContext, entries: Map<string, SuppressionBody>): Promise<Result<undefined>> {
  const id = context.query.get('after') ?? context.query.get('before');
  if (id === null) return ok(undefined);
  const found = await findByUuid(context, id);
  if (!found.ok) return found;
  if (found.value !== undefined) entries.set(id, found.value);
  return ok(undefined);
}

export function suppressionEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      method: 'POST',
      path: '/suppressions',
      summary: 'Suppress an address',
      status: 201,
      body: open({ email: Type.String({ minLength: 1, maxLength: 320 }) }),
      handle: async (context) => {
        const added = await add(context, context.body.email);
        return added.ok ? success(added.value) : added;
      },
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/suppressions',
      summary: 'List suppressed addresses, newest first',
      handle: listEntries,
    }),
    endpoint(deps, {
      method: 'POST',
      path: '/suppressions/batch/add',
      summary: 'Suppress up to 100 addresses',
      body: open({ emails: many }),
      handle: addMany,
    }),
    endpoint(deps, {
      method: 'POST',
      path: '/suppressions/batch/remove',
      summary: 'Remove up to 100 addresses from the list',
      body: removal,
      handle: removeMany,
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/suppressions/:name',
      summary: 'Show an entry, by its id or address',
      handle: async (context) => {
        const found = await find(context, context.request.params.name ?? '');
        return found.ok ? success({ object: 'suppression', ...shown(found.value) }) : found;
      },
    }),
    endpoint(deps, {
      method: 'DELETE',
      path: '/suppressions/:name',
      summary: 'Remove an entry, by its id or address',
      handle: async (context) => {
        const removed = await remove(context, context.request.params.name ?? '');
        return removed.ok ? success(removed.value) : removed;
      },
    }),
  ];
}

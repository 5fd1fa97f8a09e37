/**
 * /suppressions: addresses that get no mail, of the mode of the key. Ours have no ids: the UUID of an entry is made of the time it was
 * added at and its address, so that it can be found again without a table.
 */
import { hash } from 'node:crypto';
import { type Static, Type } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { ok, type Result } from '../../base/failure.ts';
import { isUuid, timeOfUuid, uuidAt, uuidOf } from '../../base/uuid-id.ts';
import { cursorOf } from '../../http/paging.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { type Asked, endpoint, fault, NOT_FOUND, open, type ResendDoorDeps, type Said, said } from './endpoint.ts';
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

/** The entry with this UUID: of those that were added at its time. */
async function findByUuid({ call }: Asked, uuid: string): Promise<Result<SuppressionBody | undefined>> {
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

/** The entry that a UUID or an address names. */
async function find(asked: Asked, name: string): Promise<Result<SuppressionBody>> {
  if (isUuid(name)) {
    const found = await findByUuid(asked, name);
    if (!found.ok) return found;
    return found.value === undefined ? NO_ENTRY : ok(found.value);
  }
  const found = await asked.call('GET', `/suppressions/${encodeURIComponent(name)}`);
  return found.ok ? ok(found.body as SuppressionBody) : found.failure.code === 'NOT_FOUND' ? NO_ENTRY : found;
}

async function add({ call }: Asked, email: string): Promise<Result<{ object: 'suppression'; id: string }>> {
  const added = await call('POST', '/suppressions', { body: { email } });
  return added.ok ? ok({ object: 'suppression', id: uuidOfEntry(added.body) }) : added;
}

async function remove(asked: Asked, name: string): Promise<Result<{ object: string; id: string; deleted: boolean }>> {
  const found = await find(asked, name);
  if (!found.ok) return found;
  const removed = await asked.call('DELETE', `/suppressions/${encodeURIComponent(found.value.email)}`);
  return removed.ok ? ok({ object: 'suppression', id: uuidOfEntry(found.value), deleted: true }) : removed;
}

const MOST = 100;
const many = Type.Array(Type.String({ minLength: 1, maxLength: 320 }), { minItems: 1, maxItems: MOST });
const removal = open({ emails: Type.Optional(many), ids: Type.Optional(many) });

async function addMany(asked: Asked<{ emails: string[] }>): Promise<Said> {
  const data: unknown[] = [];
  for (const [index, email] of asked.body.emails.entries()) {
    const added = await add(asked, email);
    if (!added.ok) return fault(`emails[${index}]`, added.failure.details[0]?.message ?? added.failure.message);
    data.push(added.value);
  }
  return said({ data });
}

/** Entries that are not on the list are left out of the answer. */
async function removeMany(asked: Asked<Static<typeof removal>>): Promise<Said> {
  const { emails, ids } = asked.body;
  if ((emails === undefined) === (ids === undefined)) return fault('emails', 'or ids must be given, and not both');
  const data: unknown[] = [];
  for (const name of emails ?? ids ?? []) {
    const removed = await remove(asked, name);
    if (removed.ok) data.push(removed.value);
    else if (removed.failure.code !== 'NOT_FOUND') return removed;
  }
  return said({ data });
}

function listEntries(asked: Asked): Promise<Said> {
  const origin = asked.query.get('origin') ?? undefined;
  if (origin !== undefined && !['bounce', 'complaint', 'manual'].includes(origin))
    return Promise.resolve(fault('origin', 'must be bounce, complaint or manual'));
  const entries = new Map<string, SuppressionBody>();
  return resolveKey(asked, entries).then((resolved) =>
    resolved.ok
      ? list<SuppressionBody>(asked, {
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

/** Finds the entry that the page is asked to start at: its address is part of the order of the list. */
async function resolveKey(asked: Asked, entries: Map<string, SuppressionBody>): Promise<Result<undefined>> {
  const id = asked.query.get('after') ?? asked.query.get('before');
  if (id === null) return ok(undefined);
  const found = await findByUuid(asked, id);
  if (!found.ok) return found;
  if (found.value !== undefined) entries.set(id, found.value);
  return ok(undefined);
}

export function suppressionEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      ...{ method: 'POST', path: '/suppressions', summary: 'Suppress an address', status: 201 },
      body: open({ email: Type.String({ minLength: 1, maxLength: 320 }) }),
      handle: async (asked) => {
        const added = await add(asked, asked.body.email);
        return added.ok ? said(added.value) : added;
      },
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/suppressions', summary: 'List suppressed addresses, newest first' },
      handle: listEntries,
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/suppressions/batch/add', summary: 'Suppress up to 100 addresses' },
      body: open({ emails: many }),
      handle: addMany,
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/suppressions/batch/remove', summary: 'Remove up to 100 addresses from the list' },
      body: removal,
      handle: removeMany,
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/suppressions/:name', summary: 'Show an entry, by its id or address' },
      handle: async (asked) => {
        const found = await find(asked, asked.request.params.name ?? '');
        return found.ok ? said({ object: 'suppression', ...shown(found.value) }) : found;
      },
    }),
    endpoint(deps, {
      ...{ method: 'DELETE', path: '/suppressions/:name', summary: 'Remove an entry, by its id or address' },
      handle: async (asked) => {
        const removed = await remove(asked, asked.request.params.name ?? '');
        return removed.ok ? said(removed.value) : removed;
      },
    }),
  ];
}

/**
 * Lists in Resend's form: `{ object: "list", has_more, data }`, with the parameters `limit`, `after` and `before` (ids). Postrider's lists
 * continue after a cursor: an id is converted into one. `before` is found by reading from the start.
 */
import type { Caller } from '../../accounts/accounts.ts';
import { ok, type Result } from '../../base/failure.ts';
import type { IdPrefix } from '../../base/ids.ts';
import { idOfUuid, uuidOf } from '../../base/uuid-id.ts';
import { cursorOf, type PageKey } from '../../http/paging.ts';
import type { RouteDefinition } from '../../http/route.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;
/** Pages of 100 entries that are read to find the entries before an id. */
const MOST_PAGES = 100;

export interface ListQuery {
  limit: number;
  after: string | undefined;
  before: string | undefined;
}

/** Reads the parameters of a list. */
export function readListQuery(query: URLSearchParams): Result<ListQuery> {
  const text = query.get('limit') ?? String(DEFAULT_LIMIT);
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LIMIT) return invalidField('limit', `must be a number from 1 to ${MAX_LIMIT}`);
  const [after, before] = [query.get('after') ?? undefined, query.get('before') ?? undefined];
  if (after !== undefined && before !== undefined) return invalidField('before', 'cannot be used together with after');
  return ok({ limit, after, before });
}

export function listBody(data: readonly unknown[], hasMore: boolean): EndpointAnswer {
  return success({ object: 'list', has_more: hasMore, data });
}

interface ListOf<T> {
  /** The path of Postrider's list. */
  path: string;
  query?: Record<string, string | undefined>;
  /** Returns the sort key of the entry with this id; undefined if the id is not valid. */
  keyOf(id: string): PageKey | undefined;
  /** Returns the id of an entry in this interface. */
  idOf(row: T): string;
  show(row: T): unknown;
}

/** The sort key of a list that is sorted by id. */
export function keyOf(id: string | undefined): [string] | undefined {
  return id === undefined ? undefined : [id];
}

/** Returns a page of one of Postrider's lists in the form of this interface. */
export async function list<T>({ call, query }: EndpointContext, of: ListOf<T>): Promise<EndpointAnswer> {
  const wanted = readListQuery(query);
  if (!wanted.ok) return wanted;
  const { limit, after, before } = wanted.value;
  const from = after ?? before;
  const key = from === undefined ? undefined : of.keyOf(from);
  if (from !== undefined && key === undefined)
    return invalidField(after === undefined ? 'before' : 'after', 'must be an id of this list');
  if (before !== undefined) return listBefore(call, of, { limit, before });
  const cursor = key === undefined ? undefined : cursorOf(key);
  const page = await call('GET', of.path, { query: { ...of.query, limit, cursor } });
  if (!page.ok) return page;
  return listBody((page.body as T[]).map(of.show), 'X-Next-Cursor' in page.headers && 'Link' in page.headers);
}

async function listBefore<T>(
  call: EndpointContext['call'],
  of: ListOf<T>,
  wanted: { limit: number; before: string },
): Promise<EndpointAnswer> {
  let kept: T[] = [];
  let isCut = false;
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await call('GET', of.path, { query: { ...of.query, limit: MAX_LIMIT, cursor } });
    if (!page.ok) return page;
    const rows = page.body as T[];
    const at = rows.findIndex((row) => of.idOf(row) === wanted.before);
    kept.push(...(at === -1 ? rows : rows.slice(0, at)));
    isCut ||= kept.length > wanted.limit;
    kept = kept.slice(-wanted.limit);
    if (at !== -1) return listBody(kept.map(of.show), isCut);
    const next = page.headers['X-Next-Cursor'];
    if (typeof next !== 'string' || !('Link' in page.headers)) break;
    cursor = next;
  }
  return invalidField('before', 'is not among the newest entries of this list; page with after instead');
}

interface Listing<T> {
  /** The path of Postrider's list, and of the list of this interface. */
  path: string;
  prefix: IdPrefix;
  summary: string;
  /** Returns Postrider's id of an entry. */
  idOf(row: T): string;
  show(row: T): unknown;
}

/** Returns the endpoint of a list that is sorted by id. */
export function listing<T>(
  deps: ResendDoorDeps,
  { path, prefix, summary, idOf, show }: Listing<T>,
): RouteDefinition<Caller> {
  return endpoint(deps, {
    method: 'GET',
    path,
    summary,
    handle: (context) =>
      list<T>(context, {
        path,
        keyOf: (id) => keyOf(idOfUuid(prefix, id)),
        idOf: (row) => uuidOf(idOf(row)),
        show,
      }),
  });
}

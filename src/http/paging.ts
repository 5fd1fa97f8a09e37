/**
 * Pagination: `?limit=` and an opaque `?cursor=`; the next page is in Link and its cursor in X-Next-Cursor. A cursor contains the sort key
 * of the last returned row, so rows that are added or removed between pages do not shift the list. An invalid cursor is a 400. A cursor
 * altered into another valid key only returns another part of the caller's own list.
 */
import { invalid, ok, type Result, refuse } from '../base/failure.ts';
import type { IdPrefix } from '../base/ids.ts';
import type { JsonAnswer, RouteAnswer } from './route.ts';
import { Type } from './schema-type.ts';

const DEFAULT_LIMIT = 25;
const MAX_LIMIT = 100;

/** Fields to spread into the query schema of a list. */
export const pageFields = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LIMIT,
      description: `Maximum number of results, ${DEFAULT_LIMIT} by default.`,
    }),
  ),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1_000, description: 'The X-Next-Cursor of the previous page.' }),
  ),
};

/** The query of a list. */
export interface PageQuery {
  limit?: number;
  cursor?: string;
}

/** Sort key of a row, most significant part first. */
export type PageKey = readonly (string | number)[];

export interface Page {
  /** Maximum rows to return; fetch one more to find out whether there is a next page. */
  limit: number;
  /** Return rows strictly after this key in the order of the list. */
  after: PageKey | undefined;
}

/** Type of one part of a sort key; ids are identified by their prefix. */
export type PartShape = 'string' | 'number' | `${IdPrefix}_`;

/** Numbers in sort keys are times and counters; the database accepts no others for them. */
function isPart(part: unknown, shape: PartShape | undefined): boolean {
  if (shape === 'number') return Number.isSafeInteger(part);
  if (typeof part !== 'string') return false;
  return shape === 'string' || (shape !== undefined && part.startsWith(shape) && /^\w{1,64}$/.test(part));
}

function readCursor(cursor: string, shape: readonly PartShape[]): PageKey | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(cursor)) return undefined;
  try {
    const key: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (!Array.isArray(key) || key.length !== shape.length) return undefined;
    return key.every((part, index) => isPart(part, shape[index])) ? (key as PageKey) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the page that a validated query requests; `shape` is the type of each part of the sort key. */
export function readPage(query: PageQuery, shape: readonly PartShape[]): Result<Page> {
  const limit = query.limit ?? DEFAULT_LIMIT;
  if (query.cursor === undefined) return ok({ limit, after: undefined });
  const after = readCursor(query.cursor, shape);
  if (after !== undefined) return ok({ limit, after });
  return refuse(invalid([{ field: 'cursor', message: 'is not a cursor of this list; start without a cursor' }]));
}

export function cursorOf(key: PageKey): string {
  return Buffer.from(JSON.stringify(key)).toString('base64url');
}

function nextUrl(url: string, cursor: string): string {
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  const query = new URLSearchParams(mark === -1 ? '' : url.slice(mark + 1));
  query.set('cursor', cursor);
  return `${path}?${query}`;
}

interface PageOf<T> {
  page: Page;
  /** Up to page.limit + 1 rows, in the order of the list. */
  rows: readonly T[];
  keyOf: (row: T) => PageKey;
  show: (row: T) => unknown;
  /** Where a search stopped before it found enough rows; the next page continues after it. */
  stoppedAt?: PageKey | null;
  /** For a list that clients follow: a cursor is returned even at the end, to poll for later rows. */
  follow?: boolean;
  /** Encodes a cursor if it must not reveal its key. */
  textOf?: (key: PageKey) => string;
}

/** Builds the response of a list; only the URL of `request` is used. */
export function pageAnswer<T>(request: { readonly url: string }, list: PageOf<T>): JsonAnswer {
  const { page, rows, keyOf, show } = list;
  const shown = rows.slice(0, page.limit);
  const body = shown.map(show);
  const last = shown.at(-1);
  const isFull = rows.length > page.limit;
  const stoppedAt = isFull ? undefined : (list.stoppedAt ?? undefined);
  const more = isFull || stoppedAt !== undefined;
  const key = stoppedAt ?? (last === undefined ? page.after : keyOf(last));
  if (key === undefined || !(more || list.follow)) return { ok: true, body };
  const cursor = (list.textOf ?? cursorOf)(key);
  const headers: Record<string, string> = { 'X-Next-Cursor': cursor };
  if (more) headers.Link = `<${nextUrl(request.url, cursor)}>; rel="next"`;
  return { ok: true, body, headers };
}

/** A page of rows in the order of their ids, newest first. */
export interface IdPage {
  /** Return rows with ids below this one; null for the first page. */
  before: string | null;
  limit: number;
}

/** Answers a request for a list of rows in the order of their ids, newest first. */
export async function listById<T extends { id: string }>(
  request: { readonly url: string; readonly query: PageQuery },
  list: { prefix: `${IdPrefix}_`; read(page: IdPage): Promise<readonly T[]>; show(row: T): unknown },
): Promise<RouteAnswer> {
  const page = readPage(request.query, [list.prefix]);
  if (!page.ok) return page;
  const { after, limit } = page.value;
  const rows = await list.read({ before: after === undefined ? null : String(after[0]), limit: limit + 1 });
  return pageAnswer(request, { page: page.value, rows, keyOf: ({ id }) => [id], show: list.show });
}

interface WholeList<T> {
  /** All rows, in the order of their keys. */
  rows: readonly T[];
  order: 'ascending' | 'descending';
  shape: readonly PartShape[];
  keyOf(row: T): PageKey;
  show(row: T): unknown;
}

/** Returns whether the key comes after the other one in ascending order. */
function isAbove(key: PageKey, other: PageKey): boolean {
  const index = key.findIndex((part, place) => part !== other[place]);
  return index !== -1 && key[index]! > other[index]!;
}

/** Answers a request for a list that is read completely because it is short. */
export function pageOfWhole<T>(
  request: { readonly url: string; readonly query: PageQuery },
  { rows, order, shape, keyOf, show }: WholeList<T>,
): RouteAnswer {
  const page = readPage(request.query, shape);
  if (!page.ok) return page;
  const { after } = page.value;
  const isLater = (key: PageKey): boolean =>
    after === undefined || (order === 'ascending' ? isAbove(key, after) : isAbove(after, key));
  return pageAnswer(request, { page: page.value, rows: rows.filter((row) => isLater(keyOf(row))), keyOf, show });
}

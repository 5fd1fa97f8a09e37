/**
 * Lists as Resend has them: `{ object: "list", has_more, data }`, with `limit`, and `after` or `before` an id. Ours go on after a
 * cursor, which an id is turned into; what lies before an id is found by going there from the start.
 */
import { ok, type Result } from '../../base/failure.ts';
import { cursorOf, type PageKey } from '../../http/paging.ts';
import { type Asked, fault, type Said, said } from './endpoint.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;
/** Pages of 100 that are looked through for what lies before an id. */
const MOST_PAGES = 100;

export interface Wish {
  limit: number;
  after: string | undefined;
  before: string | undefined;
}

/** What a list is asked for. */
export function readWish(query: URLSearchParams): Result<Wish> {
  const text = query.get('limit') ?? String(DEFAULT_LIMIT);
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LIMIT) return fault('limit', `must be a number from 1 to ${MAX_LIMIT}`);
  const [after, before] = [query.get('after') ?? undefined, query.get('before') ?? undefined];
  if (after !== undefined && before !== undefined) return fault('before', 'cannot be used together with after');
  return ok({ limit, after, before });
}

export function listBody(data: readonly unknown[], hasMore: boolean): Said {
  return said({ object: 'list', has_more: hasMore, data });
}

interface ListOf<T> {
  /** Path of our list. */
  path: string;
  query?: Record<string, string | undefined>;
  /** The cursor that stands for an id of this interface; undefined where it is none. */
  keyOf(id: string): PageKey | undefined;
  /** The id of this interface. */
  idOf(row: T): string;
  show(row: T): unknown;
}

/** Answers a list out of one of ours. */
export async function list<T>({ call, query }: Asked, of: ListOf<T>): Promise<Said> {
  const wish = readWish(query);
  if (!wish.ok) return wish;
  const { limit, after, before } = wish.value;
  const from = after ?? before;
  const key = from === undefined ? undefined : of.keyOf(from);
  if (from !== undefined && key === undefined)
    return fault(after === undefined ? 'before' : 'after', 'must be an id of this list');
  if (before !== undefined) return listBefore(call, of, { limit, before });
  const cursor = key === undefined ? undefined : cursorOf(key);
  const page = await call('GET', of.path, { query: { ...of.query, limit, cursor } });
  if (!page.ok) return page;
  return listBody((page.body as T[]).map(of.show), 'X-Next-Cursor' in page.headers && 'Link' in page.headers);
}

async function listBefore<T>(
  call: Asked['call'],
  of: ListOf<T>,
  wish: { limit: number; before: string },
): Promise<Said> {
  let kept: T[] = [];
  let isCut = false;
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await call('GET', of.path, { query: { ...of.query, limit: MAX_LIMIT, cursor } });
    if (!page.ok) return page;
    const rows = page.body as T[];
    const at = rows.findIndex((row) => of.idOf(row) === wish.before);
    kept.push(...(at === -1 ? rows : rows.slice(0, at)));
    isCut ||= kept.length > wish.limit;
    kept = kept.slice(-wish.limit);
    if (at !== -1) return listBody(kept.map(of.show), isCut);
    const next = page.headers['X-Next-Cursor'];
    if (typeof next !== 'string' || !('Link' in page.headers)) break;
    cursor = next;
  }
  return fault('before', 'is not among the newest entries of this list; page with after instead');
}

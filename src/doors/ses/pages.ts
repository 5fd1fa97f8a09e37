/** Pages of lists: `PageSize` and `NextToken`, which is the cursor of Postrider's list. */
import { ok, type Result } from '../../base/failure.ts';
import { invalidField, type SesContext } from './endpoint.ts';

const MAX_PAGE_SIZE = 100;
const DEFAULT_PAGE_SIZE = 100;

interface Page<T> {
  rows: T[];
  /** Undefined on the last page. */
  NextToken: string | undefined;
}

/** A list of Postrider, and the page that the request names. */
interface ListRequest {
  path: string;
  filter?: Record<string, string | undefined>;
  PageSize: string | undefined;
  NextToken: string | undefined;
}

/** Returns the page that the query names. */
export function pageInQuery({ query }: SesContext): Pick<ListRequest, 'PageSize' | 'NextToken'> {
  return { PageSize: query.get('PageSize') ?? undefined, NextToken: query.get('NextToken') ?? undefined };
}

/** Reads the requested page of one of Postrider's lists. */
export async function readPage<T>({ call }: SesContext, list: ListRequest): Promise<Result<Page<T>>> {
  const size = list.PageSize ?? String(DEFAULT_PAGE_SIZE);
  const limit = /^\d{1,4}$/.test(size) ? Math.min(Number(size), MAX_PAGE_SIZE) : 0;
  if (limit < 1) return invalidField('PageSize', 'must be a number from 1 to 1000');
  const page = await call('GET', list.path, { query: { ...list.filter, limit, cursor: list.NextToken } });
  if (!page.ok) return page;
  const next = page.headers['X-Next-Cursor'];
  return ok({
    rows: page.body as T[],
    NextToken: 'Link' in page.headers && typeof next === 'string' ? next : undefined,
  });
}

/** Timestamps are seconds since 1970. */
export function secondsOf(time: string): number {
  return Date.parse(time) / 1000;
}

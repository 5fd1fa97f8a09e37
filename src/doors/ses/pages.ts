/**
 * Pages of lists: `PageSize` and `NextToken`, which is the cursor of Postrider's list. A list that joins several lists of Postrider reads
 * them one after the other, and its tokens also contain the number of the list.
 */
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

function readPageSize(PageSize = String(DEFAULT_PAGE_SIZE)): Result<number> {
  const limit = /^\d{1,4}$/.test(PageSize) ? Math.min(Number(PageSize), MAX_PAGE_SIZE) : 0;
  return limit < 1 ? invalidField('PageSize', 'must be a number from 1 to 1000') : ok(limit);
}

/** Reads the requested page of one of Postrider's lists. */
export async function readPage<T>({ call }: SesContext, list: ListRequest): Promise<Result<Page<T>>> {
  const size = readPageSize(list.PageSize);
  if (!size.ok) return size;
  const limit = size.value;
  const page = await call('GET', list.path, { query: { ...list.filter, limit, cursor: list.NextToken } });
  if (!page.ok) return page;
  const next = page.headers['X-Next-Cursor'];
  return ok({
    rows: page.body as T[],
    NextToken: 'Link' in page.headers && typeof next === 'string' ? next : undefined,
  });
}

/** Reads the requested page of the lists with each of these filters, one list after the other. */
export async function readJoinedPage<T>(
  context: SesContext,
  list: Omit<ListRequest, 'filter'> & { filters: readonly NonNullable<ListRequest['filter']>[] },
): Promise<Result<Page<T>>> {
  const { path, filters, PageSize, NextToken = '0.' } = list;
  const size = readPageSize(PageSize);
  if (!size.ok) return size;
  const [, first, firstCursor] = /^(\d)\.(.*)$/.exec(NextToken) ?? [];
  if (first === undefined || Number(first) >= filters.length)
    return invalidField('NextToken', 'is not a token of this list; start without one');
  const rows: T[] = [];
  let cursor = firstCursor === '' ? undefined : firstCursor;
  for (let index = Number(first); index < filters.length; index += 1) {
    const left = size.value - rows.length;
    if (left === 0) return ok({ rows, NextToken: `${index}.` });
    const page = await readPage<T>(context, {
      path,
      filter: filters[index]!,
      PageSize: String(left),
      NextToken: cursor,
    });
    if (!page.ok) return page;
    rows.push(...page.value.rows);
    if (page.value.NextToken !== undefined) return ok({ rows, NextToken: `${index}.${page.value.NextToken}` });
    cursor = undefined;
  }
  return ok({ rows, NextToken: undefined });
}

/** Timestamps are seconds since 1970. */
export function secondsOf(time: string): number {
  return Date.parse(time) / 1000;
}

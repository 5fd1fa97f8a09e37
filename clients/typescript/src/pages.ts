/** Lists, page by page or item by item: `for await (const message of client.messages.list())` loads the next page on demand. */
import type { Answer, Caller, Input, OperationId } from './call.ts';
import type { CallOptions } from './http.ts';

export interface Page<T> {
  items: T[];
  /** Cursor of the next page; for events with `order: 'asc'` there always is one, to continue later. */
  nextCursor: string | undefined;
  /** Whether there may be more now; a page of a long search can be empty without being the last. */
  hasMore: boolean;
  /** The headers of the response, such as X-Omitted-Requests. */
  headers: Headers;
}

/** Sends no request until it is iterated, or `page()` is called. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #read: (cursor: string | undefined) => Promise<Page<T>>;

  constructor(read: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#read = read;
  }

  /** Returns one page: the first, or the one after a cursor. */
  page(cursor?: string): Promise<Page<T>> {
    return this.#read(cursor);
  }

  /** Yields every item of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.#read(cursor);
      yield* page.items;
      // The event log has a cursor even at its end.
      cursor = page.items.length === 0 && !page.hasMore ? undefined : page.nextCursor;
    } while (cursor !== undefined);
  }
}

/** The operations that return lists. */
export type ListId = { [O in OperationId]: Answer<O> extends readonly unknown[] ? O : never }[OperationId];
type Item<O extends ListId> = Answer<O> extends readonly (infer T)[] ? T : never;

export function pagesOf<O extends ListId>(
  caller: Caller,
  operation: O,
  input: Input<O>,
  options: CallOptions | undefined,
): Pages<Item<O>> {
  return new Pages(async (cursor) => {
    const query = cursor === undefined ? input.query : { ...input.query, cursor };
    const asked = { ...input, query } as Input<O>;
    const { body, headers } = await caller.answered(operation, ...([asked, options] as never));
    const hasMore = headers.get('link')?.includes('rel="next"') ?? false;
    return { items: body as Item<O>[], nextCursor: headers.get('x-next-cursor') ?? undefined, hasMore, headers };
  });
}

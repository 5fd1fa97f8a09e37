/**
 * Searches through all that an account has (messages, events, suppressions): one at a time in this process, and in parts,
 * because whatever else is read (keys among it) waits behind the read that is under way. The accounts take turns.
 */

/** Rows that one read of a search looks at: some 20 ms. */
const PART_ROWS = 20_000;

/** A list with a filter that may pass over most of its rows. Places are those of a cursor: `null` is the beginning. */
export interface Search<R, P> {
  accountId: string;
  /** How many rows to find. */
  limit: number;
  from: P | null;
  /** Nobody reads the answer to a client that has left. */
  signal: AbortSignal;
  /** The place that ends a part of so many rows behind `from`, whether they are found or not; null where there are fewer. */
  endOf(from: P | null, rows: number): Promise<P | null>;
  /** What is found behind `from`, up to and with `through`; to the end of the list where that is null. */
  read(part: { from: P | null; through: P | null; limit: number }): Promise<R[]>;
}

export interface Searches {
  run<R, P>(search: Search<R, P>): Promise<R[]>;
}

async function searchInParts<R, P>(search: Search<R, P>, partRows: number): Promise<R[]> {
  const { limit, signal } = search;
  const found: R[] = [];
  let { from } = search;
  do {
    if (signal.aborted) return [];
    const through = await search.endOf(from, partRows);
    found.push(...(await search.read({ from, through, limit: limit - found.length })));
    from = through;
  } while (from !== null && found.length < limit);
  return found;
}

export function createSearches({ partRows = PART_ROWS } = {}): Searches {
  /** By account, in the order of their turns. */
  const waiting = new Map<string, (() => Promise<void>)[]>();
  let running = false;

  const next = async (): Promise<void> => {
    running = true;
    for (let [first] = waiting; first; [first] = waiting) {
      const [accountId, own] = first;
      const search = own.shift()!;
      waiting.delete(accountId);
      // Behind the others.
      if (own.length > 0) waiting.set(accountId, own);
      await search();
    }
    running = false;
  };

  return {
    run: (search) =>
      new Promise((resolve, reject) => {
        const own = waiting.get(search.accountId) ?? [];
        own.push(() => searchInParts(search, partRows).then(resolve, reject));
        waiting.set(search.accountId, own);
        if (!running) void next();
      }),
  };
}

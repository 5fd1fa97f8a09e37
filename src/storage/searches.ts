/**
 * Searches through all messages, events, or suppressions of an account. They read in parts, one part at a time in this process, and
 * accounts take turns, so a large search never delays a small one. A search that does not finish within a time limit returns what it found
 * and where it stopped; its next page continues there.
 */

/** Rows in the first part. Later parts grow or shrink until one takes about PART_MS on this machine. */
const FIRST_ROWS = 4_000;
const MOST_ROWS = 64_000;
const PART_MS = 20;
/** A search starts no part that is expected to end after this time, based on its last part and the turns of other accounts. */
const ANSWER_MS = 220;

export interface SearchPart<R, P> {
  found: R[];
  /** Position of the last row that was examined, matching or not; null at the end of the list. */
  end: P | null;
  /** The matches fill a response. */
  isFull?: boolean;
}

/** A list with a filter that may skip most rows. Positions are those of a cursor; `null` is the start. */
export interface Search<R, P> {
  accountId: string;
  /** Maximum number of matches. */
  limit: number;
  from: P | null;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  /** Returns the matches among the next `rows` rows after `from`. */
  read(part: { from: P | null; rows: number; limit: number }): Promise<SearchPart<R, P>>;
}

export interface Found<R, P> {
  rows: R[];
  /** Where the search stopped although there may be more; null if it reached the end or found enough. */
  stoppedAt: P | null;
}

export interface Searches {
  run<R, P>(search: Search<R, P>): Promise<Found<R, P>>;
}

interface Pace {
  firstRows: number;
  answerMs: number;
}

/** Returns a function that reads the next part; it returns undefined until the search is finished. */
function partsOf<R, P>(search: Search<R, P>, pace: Pace): () => Promise<Found<R, P> | undefined> {
  const { limit, signal } = search;
  const untilMs = performance.now() + pace.answerMs;
  const found: R[] = [];
  let rows = pace.firstRows;
  let turnMs = performance.now();
  let { from } = search;
  return async () => {
    if (signal.aborted) return { rows: [], stoppedAt: null };
    const beganMs = performance.now();
    const part = await search.read({ from, rows, limit: limit - found.length });
    const endedMs = performance.now();
    found.push(...part.found);
    from = part.end;
    if (from === null || found.length >= limit) return { rows: found, stoppedAt: null };
    if (part.isFull) return { rows: found, stoppedAt: from };
    if (endedMs + (endedMs - turnMs) > untilMs) return { rows: found, stoppedAt: from };
    turnMs = endedMs;
    if (endedMs - beganMs > PART_MS) rows = Math.max(rows >> 1, 1);
    else if (endedMs - beganMs < PART_MS / 2) rows = Math.min(rows * 2, MOST_ROWS);
    return undefined;
  };
}

export function createSearches({ firstRows = FIRST_ROWS, answerMs = ANSWER_MS } = {}): Searches {
  /** By account, in the order of their turns. Each call reads a part and returns whether the search is finished. */
  const waiting = new Map<string, (() => Promise<boolean>)[]>();
  let running = false;

  const readAll = async (): Promise<void> => {
    running = true;
    for (let [first] = waiting; first; [first] = waiting) {
      const [accountId, own] = first;
      // Move the account to the end.
      waiting.delete(accountId);
      waiting.set(accountId, own);
      if (await own[0]!()) own.shift();
      if (own.length === 0) waiting.delete(accountId);
    }
    running = false;
  };

  return {
    run: <R, P>(search: Search<R, P>) =>
      new Promise<Found<R, P>>((resolve, reject) => {
        const next = partsOf(search, { firstRows, answerMs });
        const own = waiting.get(search.accountId) ?? [];
        own.push(async () => {
          try {
            const found = await next();
            if (found !== undefined) resolve(found);
            return found !== undefined;
          } catch (error) {
            reject(error as Error);
            return true;
          }
        });
        waiting.set(search.accountId, own);
        if (!running) void readAll();
      }),
  };
}

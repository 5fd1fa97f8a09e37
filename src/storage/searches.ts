/**
 * Searches through all that an account has (messages, events, suppressions). They read in parts, one part at a time in this
 * process, and the accounts take turns with each: a search through much never holds up one through little.
 * A search that has not come to its end after a while answers what it has found and how far it came; its next page goes on there.
 */

/** Rows that the first part looks at. The next ones grow or shrink until one takes about PART_MS, whatever the machine. */
const FIRST_ROWS = 4_000;
const MOST_ROWS = 64_000;
const PART_MS = 20;
/** A search begins no further part that would end later than this if it took as long as the last one, the others' turns included. */
const ANSWER_MS = 220;

export interface SearchPart<R, P> {
  found: R[];
  /** The place of the last row that was looked at, found or not; null at the end of the list. */
  end: P | null;
  /** What was found is as much as one answer may hold. */
  isFull?: boolean;
}

/** A list with a filter that may pass over most of its rows. Places are those of a cursor: `null` is the beginning. */
export interface Search<R, P> {
  accountId: string;
  /** How many rows to find. */
  limit: number;
  from: P | null;
  /** Nobody reads the answer to a client that has left. */
  signal: AbortSignal;
  /** What is found among so many rows behind `from`. */
  read(part: { from: P | null; rows: number; limit: number }): Promise<SearchPart<R, P>>;
}

export interface Found<R, P> {
  rows: R[];
  /** Where the search stopped although there may be more behind it; null when it came to the end or has found enough. */
  stoppedAt: P | null;
}

export interface Searches {
  run<R, P>(search: Search<R, P>): Promise<Found<R, P>>;
}

interface Pace {
  firstRows: number;
  answerMs: number;
}

/** Reads the next part; answers undefined as long as there should be another. */
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
  /** By account, in the order of their turns. Each reads a part; false while it is not over. */
  const waiting = new Map<string, (() => Promise<boolean>)[]>();
  let running = false;

  const readAll = async (): Promise<void> => {
    running = true;
    for (let [first] = waiting; first; [first] = waiting) {
      const [accountId, own] = first;
      // Behind the others.
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

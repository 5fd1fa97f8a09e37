/**
 * Searches through the messages of an account, one at a time in this process: each may read them all, and whatever else is
 * read (keys among it) waits behind those that were asked for before it. The accounts take turns.
 */

export interface Searches {
  run<T>(accountId: string, search: () => Promise<T>): Promise<T>;
}

export function createSearches(): Searches {
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
    run: (accountId, search) =>
      new Promise((resolve, reject) => {
        const own = waiting.get(accountId) ?? [];
        own.push(() => search().then(resolve, reject));
        waiting.set(accountId, own);
        if (!running) void next();
      }),
  };
}

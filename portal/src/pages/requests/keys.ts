/** The keys of the rows of the log of requests. */

/**
 * Returns a function that identifies each of the requests. The rejected messages of a batch share one id, so they are numbered, but not
 * the others: their keys stay the same when newer requests arrive and when more are loaded.
 */
export function keysOf<T extends { requestId: string }>(requests: readonly T[]): (one: T) => string {
  const keys = new Map<T, string>();
  const counts = new Map<string, number>();
  for (const one of requests) {
    const before = counts.get(one.requestId) ?? 0;
    counts.set(one.requestId, before + 1);
    keys.set(one, before === 0 ? one.requestId : `${one.requestId} ${before}`);
  }
  return (one) => keys.get(one) ?? one.requestId;
}

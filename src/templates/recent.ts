/**
 * A bounded memory of what was used recently. Two generations instead of an ordered list: a hit in the young one costs
 * one look-up and nothing else, a hit in the old one moves the entry; when the young one is full it becomes the old one.
 * Holds at most twice `limits` and never fewer than the last `limits.entries` different keys, unless they weigh too much.
 */

export interface Recent<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
}

export interface RecentLimits<V> {
  entries: number;
  /** Of a generation, in the unit of `weigh`. What weighs more than this alone is not kept at all. */
  weight: number;
  /** About how many bytes the entry keeps in memory. */
  weigh(key: string, value: V): number;
}

export function createRecent<V>(limits: RecentLimits<V>): Recent<V> {
  let young = new Map<string, V>();
  let old = new Map<string, V>();
  let total = 0;

  const set = (key: string, value: V): void => {
    const weight = limits.weigh(key, value);
    if (weight > limits.weight) return;
    young.set(key, value);
    total += weight;
    if (young.size < limits.entries && total < limits.weight) return;
    old = young;
    young = new Map();
    total = 0;
  };

  return {
    get: (key) => {
      const found = young.get(key);
      if (found !== undefined) return found;
      const older = old.get(key);
      if (older !== undefined) set(key, older);
      return older;
    },
    set,
  };
}

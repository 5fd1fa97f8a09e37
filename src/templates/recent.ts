/**
 * A bounded memory of what was used recently. Two generations instead of an ordered list: a hit in the young one costs
 * one look-up and nothing else, a hit in the old one moves the entry; when the young one is full it becomes the old one.
 * Holds at most twice `limits` and never fewer than the last `limits.entries` different keys.
 */

export interface Recent<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
}

/** Keys longer than `keyLength` are not kept at all; `totalLength` bounds the characters of all keys of a generation. */
export function createRecent<V>(limits: { entries: number; keyLength: number; totalLength: number }): Recent<V> {
  let young = new Map<string, V>();
  let old = new Map<string, V>();
  let length = 0;

  const set = (key: string, value: V): void => {
    if (key.length > limits.keyLength) return;
    young.set(key, value);
    length += key.length;
    if (young.size < limits.entries && length < limits.totalLength) return;
    old = young;
    young = new Map();
    length = 0;
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

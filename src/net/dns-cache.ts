/** What was asked for, remembered for a time of its own each; questions at the same moment are asked once. */

export interface Cached<T> {
  value: T;
  /** How long it may be remembered (0: not at all), or from the cache how long it still may. */
  ttlMs: number;
}

export interface DnsCache {
  /** The remembered answer, or the one that `ask` gives. */
  get<T>(key: string, ask: () => Promise<Cached<T>>): Promise<Cached<T>>;
  clear(): void;
}

/** `now` is in milliseconds and only compared with itself. */
export function dnsCache(options: { maxEntries: number; now?: () => number }): DnsCache {
  const now = options.now ?? (() => performance.now());
  const entries = new Map<string, { value: unknown; until: number }>();
  const asking = new Map<string, Promise<Cached<unknown>>>();

  const askOnce = async <T>(key: string, ask: () => Promise<Cached<T>>): Promise<Cached<T>> => {
    try {
      const answer = await ask();
      if (answer.ttlMs > 0) {
        if (entries.size >= options.maxEntries) entries.delete(entries.keys().next().value as string);
        entries.set(key, { value: answer.value, until: now() + answer.ttlMs });
      }
      return answer;
    } finally {
      asking.delete(key);
    }
  };

  return {
    get: <T>(key: string, ask: () => Promise<Cached<T>>): Promise<Cached<T>> => {
      const known = entries.get(key);
      if (known) {
        // The one used last stands last.
        entries.delete(key);
        const ttlMs = known.until - now();
        if (ttlMs > 0) {
          entries.set(key, known);
          return Promise.resolve({ value: known.value as T, ttlMs });
        }
      }
      const underWay = asking.get(key);
      if (underWay) return underWay as Promise<Cached<T>>;
      const asked = askOnce(key, ask);
      asking.set(key, asked);
      return asked;
    },
    clear: () => entries.clear(),
  };
}

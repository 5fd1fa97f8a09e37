/**
 * Answers remembered in this process, bounded in number and in age; the one used longest ago goes first. Questions asked
 * while the same one is under way share its answer.
 */

export interface Cached<T> {
  value: T;
  ttlMs: number;
}

export interface DnsCache {
  /** The remembered answer, or the one that `ask` gives, remembered for its `ttlMs` (0: not at all). */
  get<T>(key: string, ask: () => Promise<Cached<T>>): Promise<T>;
  clear(): void;
}

/** `now` is in milliseconds and only compared with itself. */
export function dnsCache(options: { maxEntries: number; now?: () => number }): DnsCache {
  const now = options.now ?? (() => performance.now());
  const entries = new Map<string, { value: unknown; until: number }>();
  const asking = new Map<string, Promise<unknown>>();

  const askOnce = async <T>(key: string, ask: () => Promise<Cached<T>>): Promise<T> => {
    try {
      const { value, ttlMs } = await ask();
      if (ttlMs > 0) {
        if (entries.size >= options.maxEntries) entries.delete(entries.keys().next().value as string);
        entries.set(key, { value, until: now() + ttlMs });
      }
      return value;
    } finally {
      asking.delete(key);
    }
  };

  return {
    get: <T>(key: string, ask: () => Promise<Cached<T>>): Promise<T> => {
      const known = entries.get(key);
      if (known) {
        entries.delete(key);
        if (known.until > now()) {
          entries.set(key, known);
          return Promise.resolve(known.value as T);
        }
      }
      const underWay = asking.get(key);
      if (underWay) return underWay as Promise<T>;
      const asked = askOnce(key, ask);
      asking.set(key, asked);
      return asked;
    },
    clear: () => entries.clear(),
  };
}

/**
 * A cache of DNS answers, each with its own lifetime. Concurrent identical questions are asked once. The least recently used entries are
 * evicted when there are too many, or when they are too large in total (an answer can have 64 KB).
 */

export interface Cached<T> {
  value: T;
  /** How long it may be cached (0: not at all), or, from the cache, the remaining time. */
  ttlMs: number;
}

export interface DnsCache {
  /** Returns the cached answer, or asks with `ask`. */
  get<T>(key: string, ask: () => Promise<Cached<T>>): Promise<Cached<T>>;
  clear(): void;
}

interface Entry {
  value: unknown;
  until: number;
  sizeBytes: number;
}

/** Memory of an entry besides its content. */
const ENTRY_BYTES = 500;

/** `now` returns milliseconds and is only compared with itself. */
export function dnsCache(options: { maxEntries: number; maxBytes: number; now?: () => number }): DnsCache {
  const now = options.now ?? (() => performance.now());
  const entries = new Map<string, Entry>();
  const asking = new Map<string, Promise<Cached<unknown>>>();
  let sizeBytes = 0;

  const forget = (key: string): void => {
    sizeBytes -= entries.get(key)?.sizeBytes ?? 0;
    entries.delete(key);
  };
  const keep = (key: string, entry: Entry): void => {
    entries.set(key, entry);
    sizeBytes += entry.sizeBytes;
    while (entries.size > options.maxEntries || sizeBytes > options.maxBytes) {
      forget(entries.keys().next().value as string);
    }
  };

  const askOnce = async <T>(key: string, ask: () => Promise<Cached<T>>): Promise<Cached<T>> => {
    try {
      const answer = await ask();
      const { value, ttlMs } = answer;
      // Approximates the size.
      if (ttlMs > 0) {
        keep(key, { value, until: now() + ttlMs, sizeBytes: ENTRY_BYTES + 2 * JSON.stringify(value).length });
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
        // Most recently used entries come last.
        entries.delete(key);
        entries.set(key, known);
        const ttlMs = known.until - now();
        if (ttlMs > 0) return Promise.resolve({ value: known.value as T, ttlMs });
        forget(key);
      }
      const underWay = asking.get(key);
      if (underWay) return underWay as Promise<Cached<T>>;
      const requested = askOnce(key, ask);
      asking.set(key, requested);
      return requested;
    },
    clear: () => {
      entries.clear();
      sizeBytes = 0;
    },
  };
}

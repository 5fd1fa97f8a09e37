/**
 * A bounded cache of values that must not be older than a given age. A hit returns without a promise. A value past half its age is still
 * returned and read again in the background, so busy keys never wait. A read in progress is joined unless it began too long ago, since what
 * it returns may be as old as its start. Absent keys can be cached too, in a small map of their own, so that a flood of unknown keys neither
 * reaches the source each time nor evicts known values.
 */
import type { Clock } from './clock.ts';

export interface FreshCacheOptions<A, V> {
  clock: Clock;
  /** Maximum age of a returned value. */
  maxAgeMs: number;
  /** Maximum number of cached values; the ones read longest ago are evicted first. */
  limit: number;
  /** Maximum number of cached absent keys; 0 reads them each time. */
  absentLimit: number;
  /** Reads the value; undefined if there is none. */
  read(argument: A): Promise<V | undefined>;
}

export interface FreshCache<A, V> {
  /** Returns the value, synchronously if it is fresh; `argument` is passed to the read. Rejects if the read rejects. */
  get(key: string, argument: A): V | undefined | Promise<V | undefined>;
  forget(key: string): void;
  /**
   * Evicts all matching values and all absent keys. Reads in progress still resolve for their current callers, but are neither joined nor
   * cached, because they may have started before the change.
   */
  evictWhere(matches: (value: V) => boolean): void;
}

interface Entry<V> {
  value: V | undefined;
  readAtMs: number;
}

export function createFreshCache<A, V>(options: FreshCacheOptions<A, V>): FreshCache<A, V> {
  const { clock, maxAgeMs } = options;
  const known = new Map<string, Entry<V>>();
  const absent = new Map<string, Entry<V>>();
  const reading = new Map<string, { result: Promise<V | undefined>; startedAtMs: number }>();

  const keep = (map: Map<string, Entry<V>>, limit: number, key: string, entry: Entry<V>): void => {
    map.delete(key);
    map.set(key, entry);
    if (map.size > limit) map.delete(map.keys().next().value as string);
  };

  // A clock that was set back makes every value doubtful.
  const isFresh = (ageMs: number): boolean => ageMs >= 0 && ageMs <= maxAgeMs;

  const read = (key: string, argument: A): Promise<V | undefined> => {
    // The age counts from the start of the read: the value may be that old.
    const startedAtMs = clock.now();
    const inProgress = reading.get(key);
    if (inProgress && isFresh(startedAtMs - inProgress.startedAtMs)) return inProgress.result;
    const result = options
      .read(argument)
      .then((value) => {
        if (reading.get(key)?.result !== result) return value;
        if (value === undefined) {
          known.delete(key);
          keep(absent, options.absentLimit, key, { value, readAtMs: startedAtMs });
        } else {
          absent.delete(key);
          keep(known, options.limit, key, { value, readAtMs: startedAtMs });
        }
        return value;
      })
      .finally(() => {
        if (reading.get(key)?.result === result) reading.delete(key);
      });
    reading.set(key, { result, startedAtMs });
    return result;
  };

  return {
    get: (key, argument) => {
      const entry = known.get(key) ?? absent.get(key);
      if (entry === undefined) return read(key, argument);
      const ageMs = clock.now() - entry.readAtMs;
      if (!isFresh(ageMs)) return read(key, argument);
      if (ageMs > maxAgeMs / 2 && !reading.has(key)) read(key, argument).catch(() => undefined);
      return entry.value;
    },
    forget: (key) => {
      known.delete(key);
      absent.delete(key);
      reading.delete(key);
    },
    evictWhere: (matches) => {
      for (const [key, entry] of known) if (matches(entry.value as V)) known.delete(key);
      absent.clear();
      reading.clear();
    },
  };
}

/**
 * A bounded map of values that are read elsewhere and must not be older than a given age. A hit answers without a
 * promise; a value past half its age is read again in the background while it still answers, so that a busy key never
 * waits; one read per key is under way at a time. What does not exist may be remembered too, in a small map of its own, so that a flood
 * of unknown keys neither reaches the source each time nor drives out what is known.
 */
import type { Clock } from './clock.ts';

export interface FreshCacheOptions<A, V> {
  clock: Clock;
  /** A value read longer ago than this is never answered. */
  maxAgeMs: number;
  /** Values kept at most; the ones read longest ago go first. */
  limit: number;
  /** Absent keys remembered at most; 0 asks again each time. */
  absentLimit: number;
  /** Reads the value; undefined when there is none. */
  read(argument: A): Promise<V | undefined>;
}

export interface FreshCache<A, V> {
  /** The value, at once when it is fresh; `argument` is what a read needs. Rejects as the read does. */
  get(key: string, argument: A): V | undefined | Promise<V | undefined>;
  forget(key: string): void;
  /**
   * Forgets every value that matches and all that is absent. Reads under way answer those who wait for them already, and
   * are neither joined nor remembered: they may have begun before the change.
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
  const reading = new Map<string, Promise<V | undefined>>();

  const keep = (map: Map<string, Entry<V>>, limit: number, key: string, entry: Entry<V>): void => {
    map.delete(key);
    map.set(key, entry);
    if (map.size > limit) map.delete(map.keys().next().value as string);
  };

  const read = (key: string, argument: A): Promise<V | undefined> => {
    const under = reading.get(key);
    if (under) return under;
    // The age counts from before the read, since that is the latest moment it surely tells of.
    const readAtMs = clock.now();
    const started = options
      .read(argument)
      .then((value) => {
        if (reading.get(key) !== started) return value;
        if (value === undefined) {
          known.delete(key);
          keep(absent, options.absentLimit, key, { value, readAtMs });
        } else {
          absent.delete(key);
          keep(known, options.limit, key, { value, readAtMs });
        }
        return value;
      })
      .finally(() => {
        if (reading.get(key) === started) reading.delete(key);
      });
    reading.set(key, started);
    return started;
  };

  return {
    get: (key, argument) => {
      const entry = known.get(key) ?? absent.get(key);
      if (entry === undefined) return read(key, argument);
      const ageMs = clock.now() - entry.readAtMs;
      // A clock that was set back makes every value doubtful.
      if (ageMs < 0 || ageMs > maxAgeMs) return read(key, argument);
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

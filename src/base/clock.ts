/**
 * The time as an argument, so that tests move it. Only wall-clock decisions (schedules, expiry, timestamps) go through
 * it; socket deadlines use Node's timers directly.
 */

export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** Returns ISO 8601 UTC with milliseconds, the format of times in JSON responses. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Returns the time as ISO 8601, or null if there is none. */
export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}

/**
 * Returns a function that detects changes of the wall clock by comparing it with the monotonic clock: leases and schedules follow the wall
 * clock. It returns the milliseconds that the wall clock was set forward (positive) or back since the last call, with some milliseconds of
 * noise.
 */
export function watchJumps(clock: Clock): () => number {
  const offset = (): number => clock.now() - performance.now();
  let last = offset();
  return () => {
    const before = last;
    last = offset();
    return last - before;
  };
}

/**
 * A stored time that is further ahead of now than this was stored while the clock was wrong, before it was set back. Smaller differences
 * can come from other nodes.
 */
export const CLOCK_TOLERANCE_MS = 900_000;

/** Smaller jumps come from time synchronization and are harmless. */
export const JUMP_MS = 5_000;

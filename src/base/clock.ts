/**
 * The time as an argument, so that tests move it. Only wall-clock decisions (schedules, expiry, timestamps) go through
 * it; socket deadlines use Node's timers directly.
 */

export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** ISO 8601 UTC with milliseconds, as every JSON answer shows times. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Tells by how much the wall clock was set, by comparing it with the monotonic one: leases and schedules follow the former.
 * Milliseconds since the last call, positive for forward; noise of some milliseconds is in it.
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

/** Jumps below this are those of a time service, and harm nothing. */
export const JUMP_MS = 5_000;

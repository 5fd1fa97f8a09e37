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

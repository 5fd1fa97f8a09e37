/**
 * The number of messages per day that an address new to a provider sends there, so that its reputation can grow: 50 on day 1, doubling up
 * to 400 on day 4, then 25 % more each day, and unlimited from day 43. Published ramps of others start with 50 to 500 a day and end after 3
 * to 6 weeks (SendGrid 41 days, Amazon SES 45). Days are in UTC. Pure; docs/guides/warm-up.md shows the table.
 */
const DAY_MS = 86_400_000;

/** Days with a limit. */
export const WARM_UP_DAYS = 42;

/** Returns the number of messages for a day, counted from 1; undefined if there is no limit. */
export function shareOfDay(day: number): number | undefined {
  if (day > WARM_UP_DAYS) return undefined;
  // A day in the future has the share of day 1.
  if (day <= 4) return 50 * 2 ** Math.max(0, day - 1);
  return Number((400 * 1.25 ** (day - 4)).toPrecision(2));
}

/** Returns the number of the day since 1970-01-01. */
export function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS);
}

/** Returns the Unix ms at which a day starts. */
export function beginningOf(day: number): number {
  return day * DAY_MS;
}

/**
 * How many mails a day an address that is new to a provider sends there, so that its reputation has time to grow: 50 on the first day,
 * twice as many each day up to 400 on the fourth, then a quarter more each day, and as many as there are from the 43rd day on. The
 * published ramps of others begin with 50 to 500 a day and end after 3 to 6 weeks (SendGrid 41 days, Amazon SES 45). Days are those of
 * UTC. Pure; docs/guides/warm-up.md shows the table.
 */
const DAY_MS = 86_400_000;

/** Days with a limit. */
export const WARM_UP_DAYS = 42;

/** Mails on the day with this number, the first being 1; undefined when there is no limit any more. */
export function shareOfDay(day: number): number | undefined {
  if (day > WARM_UP_DAYS) return undefined;
  // A day that is still to come has the share of the first.
  if (day <= 4) return 50 * 2 ** Math.max(0, day - 1);
  return Number((400 * 1.25 ** (day - 4)).toPrecision(2));
}

/** The number of the day, since 1970. */
export function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS);
}

/** Unix ms at which a day begins. */
export function beginningOf(day: number): number {
  return day * DAY_MS;
}

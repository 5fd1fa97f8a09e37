/**
 * The published retry schedules. Pure: given how many attempts were made, when is the next one. Jitter spreads
 * messages that failed together; it is drawn by the caller so that tests can fix it.
 */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** How long a delivery is tried, unless its sender asks for less. */
export const LIFETIME_MS = 72 * HOUR;

/** Delay after attempt n (1-based) of a delivery: 1, 5, 15, 30 min, 1, 2, 4 h, then every 6 h. */
const DELIVERY_DELAYS_MS = [1, 5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE);

/** Delay after attempt n (1-based) of a delivery to a server that blocks our host: 15 min, 1, 2, 4 h, then every 6 h. */
const BLOCKED_DELAYS_MS = [15, 60, 120, 240].map((minutes) => minutes * MINUTE);

/** Delay after attempt n (1-based) of a webhook; none follows the tenth. */
const WEBHOOK_DELAYS_MS = [
  5_000,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];

/** Moves a delay by up to ±10 %; `random` is uniform in [0, 1). */
export function jitter(delayMs: number, random: number): number {
  return Math.round(delayMs * (0.9 + 0.2 * random));
}

/** Milliseconds from the end of attempt `attempts` to the next one, without jitter. */
export function deliveryDelayMs(attempts: number): number {
  return DELIVERY_DELAYS_MS[attempts - 1] ?? 6 * HOUR;
}

/** The same where the server refused our host. */
export function blockedDelayMs(attempts: number): number {
  return BLOCKED_DELAYS_MS[attempts - 1] ?? 6 * HOUR;
}

/** Milliseconds to the next webhook attempt without jitter, or undefined when the schedule has ended. */
export function webhookDelayMs(attempts: number): number | undefined {
  return WEBHOOK_DELAYS_MS[attempts - 1];
}

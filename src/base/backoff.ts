/**
 * The documented retry schedules. Pure: given the number of attempts, when is the next one. Jitter spreads messages that failed together;
 * callers draw it, so that tests can fix it.
 */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** How long a delivery is retried, unless its sender sets a shorter time. */
export const LIFETIME_MS = 72 * HOUR;

/** Delay after each further attempt of a delivery, or to read an inbound message. */
const LAST_DELAY_MS = 6 * HOUR;

/** Delay after attempt n (1-based) of a delivery: 1, 5, 15, 30 min, 1, 2, 4 h, then every 6 h. */
const DELIVERY_DELAYS_MS = [1, 5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE);

/** Delay after attempt n (1-based) of a delivery to a server that blocks this host: 15 min, 1, 2, 4 h, then every 6 h. */
const BLOCKED_DELAYS_MS = [15, 60, 120, 240].map((minutes) => minutes * MINUTE);

/** Delay after attempt n (1-based) to read an inbound message: 1, 5, 15, 30 min, 1, 2, 4 h, then every 6 h. Not published. */
const INBOUND_DELAYS_MS = [1, 5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE);

/** Delay after attempt n (1-based) of a webhook; there is no attempt after the tenth. */
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

/** Returns the milliseconds from the end of attempt `attempts` to the next one, without jitter. */
export function deliveryDelayMs(attempts: number): number {
  return DELIVERY_DELAYS_MS[attempts - 1] ?? LAST_DELAY_MS;
}

/** Returns the same delay for a server that blocks this host. */
export function blockedDelayMs(attempts: number): number {
  return BLOCKED_DELAYS_MS[attempts - 1] ?? LAST_DELAY_MS;
}

/** Milliseconds to the next webhook attempt without jitter, or undefined when the schedule has ended. */
export function webhookDelayMs(attempts: number): number | undefined {
  return WEBHOOK_DELAYS_MS[attempts - 1];
}

/** Returns the milliseconds from the end of attempt `attempts` to process an inbound message to the next one, without jitter. */
export function inboundDelayMs(attempts: number): number {
  return INBOUND_DELAYS_MS[attempts - 1] ?? LAST_DELAY_MS;
}

/** Factor for jitter and for a slow tick. */
const SLACK = 1.15;

/**
 * Returns for each step of a schedule the longest time after an attempt at which work can be due. The last value applies to all further
 * attempts.
 */
function latestWaitsMs(steps: number, delayMs: (attempts: number) => number): number[] {
  return Array.from({ length: steps }, (_, index) => Math.round(delayMs(index + 1) * SLACK));
}

export const LATEST_DELIVERY_WAITS_MS: readonly number[] = latestWaitsMs(
  DELIVERY_DELAYS_MS.length + 1,
  deliveryDelayMs,
);
/** The longer of both delivery schedules: a row does not store whether it follows the one for servers that block the host. */
export const LATEST_BLOCKED_WAITS_MS: readonly number[] = latestWaitsMs(
  Math.max(DELIVERY_DELAYS_MS.length, BLOCKED_DELAYS_MS.length) + 1,
  (attempts) => Math.max(deliveryDelayMs(attempts), blockedDelayMs(attempts)),
);
export const LATEST_INBOUND_WAITS_MS: readonly number[] = latestWaitsMs(INBOUND_DELAYS_MS.length + 1, inboundDelayMs);
export const LATEST_WEBHOOK_WAITS_MS: readonly number[] = latestWaitsMs(
  WEBHOOK_DELAYS_MS.length,
  (attempts) => WEBHOOK_DELAYS_MS[attempts - 1]!,
);

/** For each step of the delivery schedule, the shortest wait after an attempt. The last value applies to all further attempts. */
export const SHORTEST_DELIVERY_WAITS_MS: readonly number[] = Array.from(
  { length: DELIVERY_DELAYS_MS.length + 1 },
  (_, index) => Math.floor(deliveryDelayMs(index + 1) * 0.9),
);

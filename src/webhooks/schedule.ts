/** How long a delivery of a webhook may wait, for bringing its schedule back in order. */
import { webhookDelayMs } from '../base/backoff.ts';

/** A step of the schedule with its jitter, and as much again. */
const SLACK = 1.15;
/** Longest that an endpoint may have asked for with Retry-After; what was asked is not known at a start. */
const LATEST_RETRY_MS = 24 * 3_600_000;

/** At most, after attempt n (index n - 1); where the clock was set back there is no room for what an endpoint asked for. */
export function latestWaits({ isSetBack }: { isSetBack: boolean }): number[] {
  const waits: number[] = [];
  for (let attempts = 1; ; attempts += 1) {
    const delayMs = webhookDelayMs(attempts);
    if (delayMs === undefined) return waits;
    waits.push(Math.max(Math.round(delayMs * SLACK), isSetBack ? 0 : LATEST_RETRY_MS));
  }
}

/**
 * The server's time as this process knows it: the last answer of the server, moved on by the monotonic clock. Nodes that
 * share a database agree in it to a few milliseconds, whatever their own wall clocks say or jump to.
 */
import type { Clock } from '../../base/clock.ts';

/** An answer that took longer says less than the one before it, unless that one is old. */
const ROUGH_MS = 50;
const OLD_MS = 60_000;

export interface ServerClock extends Clock {
  /** The server said `serverMs` between these two points of performance.now(). */
  observe(serverMs: number, askedAtMs: number, answeredAtMs: number): void;
}

export function createServerClock(): ServerClock {
  let offsetMs = performance.timeOrigin;
  let tookMs = Number.POSITIVE_INFINITY;
  let observedAtMs = Number.NEGATIVE_INFINITY;
  return {
    now: () => Math.round(performance.now() + offsetMs),
    observe: (serverMs, askedAtMs, answeredAtMs) => {
      const took = answeredAtMs - askedAtMs;
      if (took > Math.max(tookMs, ROUGH_MS) && answeredAtMs - observedAtMs < OLD_MS) return;
      offsetMs = serverMs - (askedAtMs + answeredAtMs) / 2;
      tookMs = took;
      observedAtMs = answeredAtMs;
    },
  };
}

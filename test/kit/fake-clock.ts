/** A clock that stands still until a test moves it. */
import type { Clock } from '../../src/base/clock.ts';

export interface FakeClock extends Clock {
  advance(ms: number): void;
  set(nowMs: number): void;
}

export function fakeClock(startMs = Date.UTC(2026, 10, 20, 9, 44)): FakeClock {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    advance: (ms) => {
      nowMs += ms;
    },
    set: (value) => {
      nowMs = value;
    },
  };
}

/** The time format of message pages: the time, with the date if it is another day, and the distance from now. */
import { ago, duration, shortTime, useNow } from '../../parts/time.tsx';
import type { Say } from './answer.ts';

export function useSay(): Say {
  const nowMs = useNow();
  return { nowMs, at: (time) => shortTime(time, nowMs), from: (time) => ago(Date.parse(time), nowMs), duration };
}

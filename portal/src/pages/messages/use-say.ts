/** The time format of message pages: the hour, with the date if it is another day, and the distance from now. */
import { ago, duration, useNow } from '../../parts/time.tsx';
import type { Say } from './answer.ts';

const hour = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const dayAndHour = new Intl.DateTimeFormat(undefined, {
  ...{ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
});

export function shortTime(time: string, nowMs: number): string {
  const at = new Date(time);
  return (at.toDateString() === new Date(nowMs).toDateString() ? hour : dayAndHour).format(at);
}

export function useSay(): Say {
  const nowMs = useNow();
  return { nowMs, at: (time) => shortTime(time, nowMs), from: (time) => ago(Date.parse(time), nowMs), duration };
}

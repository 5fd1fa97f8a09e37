/** Times, numbers and sizes. Dates and numbers have the format of the browser's locale, hours a 24-hour clock. */
import { Tooltip } from '@mantine/core';
import { useSyncExternalStore } from 'react';

/** Relative times contain words, so they use the language of the texts. */
const LANGUAGE = 'en';
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];
const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: 'auto' });
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long', hourCycle: 'h23' });
const short = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
});

/** One clock for all times of the page. */
const listeners = new Set<() => void>();
let nowMs = Date.now();
setInterval(() => {
  nowMs = Date.now();
  for (const listener of listeners) listener();
}, 5_000);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Unix ms, updated every five seconds. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs);
}

export function ago(atMs: number, now: number): string {
  const distance = atMs - Math.max(now, 0);
  if (Math.abs(distance) < 5_000) return distance > 0 ? 'now' : 'just now';
  for (const [unit, length] of STEPS)
    if (Math.abs(distance) >= length) return relative.format(Math.round(distance / length), unit);
  return 'now';
}

export const exactTime = (at: string): string => absolute.format(new Date(at));

/** `exact` shows the date and time, with the relative time as a tooltip. */
export function Time({ at, exact = false }: { at: string; exact?: boolean }) {
  const now = useNow();
  const atMs = Date.parse(at);
  const [shown, hidden] = exact ? [short.format(atMs), ago(atMs, now)] : [ago(atMs, now), exactTime(at)];
  return (
    <Tooltip label={exact ? `${exactTime(at)} (${hidden})` : hidden}>
      <time dateTime={at} style={{ whiteSpace: 'nowrap' }}>
        {shown}
      </time>
    </Tooltip>
  );
}

const counted = new Intl.NumberFormat();
export const count = (value: number): string => counted.format(value);
export const percent = (share: number): string =>
  new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: share < 0.1 ? 2 : 1 }).format(share);

/** 1 MB = 1,000,000 bytes, as in the API. */
export function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Formats as 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, or 3 d 4 h. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  const whole = Math.round(seconds);
  for (const [name, length, rest, restLength] of [
    ['d', 86_400, 'h', 3_600],
    ['h', 3_600, 'min', 60],
    ['min', 60, 's', 1],
  ] as const) {
    const left = Math.floor((whole % length) / restLength);
    if (whole >= length) return `${Math.floor(whole / length)} ${name}${left > 0 ? ` ${left} ${rest}` : ''}`;
  }
  return `${whole} s`;
}

/** Times: how long ago, or in how long, with the exact time on the pointer and for screen readers; numbers and sizes. */
import { Tooltip } from '@mantine/core';
import { useSyncExternalStore } from 'react';

const LANGUAGE = 'en';
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];
const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: 'auto', style: '“2 min. ago”, “in 1 hr.” → “2 minutes ago”/“2m ago”, “in 1 hour”' });
const absolute = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'Tooltip “Nov 26, 2026, 8:18:27 PM” beside “Nov 26, 20:18”: one clock (24 h, with zone: “26 Nov 2026, 20:18:27 GMT+1”)', timeStyle: 'medium' });
const short = new Intl.DateTimeFormat(LANGUAGE, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
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

/** Unix ms, moved on every five seconds. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs);
}

export function ago(atMs: number, now: number): string {
  const distance = atMs - Math.max(now, 0);
  if (Math.abs(distance) < 5_000) return 'now';
  for (const [unit, length] of STEPS)
    if (Math.abs(distance) >= length) return relative.format(Math.round(distance / length), unit);
  return 'now';
}

export const exactTime = (at: string): string => absolute.format(new Date(at));

/** `exact` shows the date and time, and how long ago on the pointer. */
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

const counted = new Intl.NumberFormat(LANGUAGE);
export const count = (value: number): string => counted.format(value);
export const percent = (share: number): string =>
  new Intl.NumberFormat(LANGUAGE, { style: 'percent', maximumFractionDigits: share < 0.1 ? 2 : 1 }).format(share);

/** 1 MB = 1,000,000 bytes, as everywhere in the API. */
export function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Such as 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
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

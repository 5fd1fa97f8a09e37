/** Times, numbers and sizes. Dates and numbers have the format of the browser's first language, hours a 24-hour clock. */
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
/** The languages of the user. Without them, Intl uses the language of the browser's menus. */
const LOCALES = [...navigator.languages];
export const formatOf = (options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat(LOCALES, { hourCycle: 'h23', ...options });
const absolute = formatOf({ dateStyle: 'medium', timeStyle: 'long' });
const clock = formatOf({ hour: '2-digit', minute: '2-digit' });
const DAY_AND_TIME = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' } as const;
const thisYear = formatOf(DAY_AND_TIME);
const anyYear = formatOf({ ...DAY_AND_TIME, year: 'numeric' });

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

/** Date, time to the second, and time zone. */
export const exactTime = (at: string): string => absolute.format(new Date(at));

/** Day and time, with the year unless it is the current one. */
export function dayAndTime(atMs: number, now: number): string {
  const isThisYear = new Date(atMs).getFullYear() === new Date(now).getFullYear();
  return (isThisYear ? thisYear : anyYear).format(atMs);
}

/** The time alone if it is today, otherwise also the day. */
export function shortTime(at: string, now: number): string {
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  return isToday ? clock.format(new Date(at)) : dayAndTime(Date.parse(at), now);
}

/** `exact` shows the date and time, with the relative time as a tooltip. */
export function Time({ at, exact = false }: { at: string; exact?: boolean }) {
  const now = useNow();
  const atMs = Date.parse(at);
  const [shown, hidden] = exact ? [dayAndTime(atMs, now), ago(atMs, now)] : [ago(atMs, now), exactTime(at)];
  return (
    <Tooltip label={exact ? `${exactTime(at)} (${hidden})` : hidden}>
      <time dateTime={at} style={{ whiteSpace: 'nowrap' }}>
        {shown}
      </time>
    </Tooltip>
  );
}

const counted = new Intl.NumberFormat(LOCALES);
export const count = (value: number): string => counted.format(value);
export const percent = (share: number): string =>
  new Intl.NumberFormat(LOCALES, { style: 'percent', maximumFractionDigits: share < 0.1 ? 2 : 1 }).format(share);

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

/** Formats a time for a date and time field, which is in the user's time zone. */
export function localTime(time: string): string {
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

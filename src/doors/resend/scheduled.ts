/** Times and durations of this interface: ISO 8601, and relative times such as `in 1 min`. */
import { isoTimeMs } from '../../http/validate.ts';

const UNIT_MS: Readonly<Record<string, number>> = { min: 60_000, hour: 3_600_000, day: 86_400_000 };
const RELATIVE = /^in\s+(\d{1,5}|an?)\s*(min(?:ute)?|h(?:ou)?r?|day|d|m)s?$/i;

function unitOf(word: string): number {
  const [first] = word.toLowerCase();
  return UNIT_MS[first === 'm' ? 'min' : first === 'h' ? 'hour' : 'day']!;
}

/** The accepted form, for the message of a failure. */
export const TIME_ALLOWED =
  'must be an ISO 8601 time such as 2026-12-01T09:00:00Z, or relative such as "in 10 min", "in 2 hours" or "in 1 day"';

/** Returns the Unix ms of a time; undefined for any other text. A time without a zone is UTC; a space is allowed in place of the T. */
export function timeMs(text: string, nowMs: number): number | undefined {
  const written = text.trim();
  const [, count = '', unit = ''] = RELATIVE.exec(written) ?? [];
  if (unit !== '') return nowMs + (/^\d/.test(count) ? Number(count) : 1) * unitOf(unit);
  const iso = written.replace(/^(\d{4}-\d\d-\d\d) /, '$1T').replace(/([+-]\d\d)$/, '$1:00');
  for (const candidate of [iso, `${iso}Z`]) {
    const ms = isoTimeMs(candidate);
    if (!Number.isNaN(ms)) return ms;
  }
  return undefined;
}

const DURATION = /^(\d{1,6})\s*(s(?:ec(?:ond)?)?|m(?:in(?:ute)?)?|h(?:ou)?r?|d(?:ay)?|w(?:eek)?)s?$/i;
const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };

/** Returns the seconds of a duration such as `7d` or `2 hours`; undefined for any other text. */
export function durationSeconds(text: string): number | undefined {
  const [, count = '', unit = ''] = DURATION.exec(text.trim()) ?? [];
  return unit === '' ? undefined : Number(count) * SECONDS[unit[0]!.toLowerCase()]!;
}

/** The time range of a call: complete hours or days in UTC, within the 400 days that counters are kept. */
import { type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { PERIODS, type Period } from './counts.ts';

const DAY_MS = PERIODS.day;
export const KEPT_DAYS = 400;
/** Maximum span of each interval, in days. */
const DAYS_AT_MOST: Record<Period, number> = { hour: 31, day: KEPT_DAYS };
/** Up to this span the default interval is an hour. */
const HOURLY_DAYS = 3;
const DEFAULT_DAYS = 7;

export interface Span {
  period: Period;
  /** Unix ms: the start of the first period, and of the first one after the range. */
  fromMs: number;
  untilMs: number;
}

interface RequestedSpan {
  sinceMs: number | undefined;
  untilMs: number | undefined;
  interval: Period | undefined;
}

export function readSpan(requested: RequestedSpan, nowMs: number): Result<Span> {
  const untilMs = requested.untilMs ?? nowMs;
  const sinceMs = requested.sinceMs ?? untilMs - DEFAULT_DAYS * DAY_MS;
  const period = requested.interval ?? (untilMs - sinceMs <= HOURLY_DAYS * DAY_MS ? 'hour' : 'day');
  const length = PERIODS[period];
  const fromMs = Math.floor(sinceMs / length) * length;
  const endMs = Math.ceil(untilMs / length) * length;
  const days = DAYS_AT_MOST[period];
  const issues: Issue[] = [];
  if (sinceMs > untilMs) issues.push({ field: 'since', message: 'must not be after until (default: now)' });
  // One period more, which may be partial: the last 31 days may end within an hour.
  if (sinceMs < Math.floor(nowMs / DAY_MS) * DAY_MS - KEPT_DAYS * DAY_MS)
    issues.push({
      field: 'since',
      message: `must be at most ${KEPT_DAYS} days ago, which is how long statistics are stored`,
    });
  if (endMs - fromMs > days * DAY_MS + length)
    issues.push({
      field: 'since',
      message: `must be at most ${days} days before until if interval is ${period}`,
    });
  return issues.length > 0 ? refuse(invalid(issues)) : ok({ period, fromMs, untilMs: endMs });
}

/**
 * Rates of bounces and complaints of an account's live mail over the last day and the last seven, in complete hours, from the statistics.
 * Only hard bounces count, because they are due to the sender's addresses; an unavailable server or an expired message is not. Mail from
 * before held mail was last released no longer counts. Pure.
 */
import {
  type AnsweredMail,
  type CountedFrom,
  type ProtectionReason,
  type Rates,
  reaching,
  type Thresholds,
} from '../accounts/accounts.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** The sliding periods, in days. */
export const PERIOD_DAYS = [1, 7] as const;

/** Returns the start of its hour. */
export const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS) * HOUR_MS;

/** Returns the hour from which each period is counted. */
export function beginnings(nowMs: number, countedFrom: CountedFrom | null): number[] {
  return PERIOD_DAYS.map((days) => Math.max(hourOf(nowMs - days * DAY_MS), countedFrom?.hourMs ?? 0));
}

function ratesOf(counts: AnsweredMail): Rates {
  const answered = Math.max(0, counts.answered);
  const share = (part: number): number => (answered === 0 ? 0 : Math.max(0, part) / answered);
  return { answered, bounceRate: share(counts.bouncedHard), complaintRate: share(counts.complained) };
}

interface Counted {
  /** Results in the hours since each of the starts. */
  counts: readonly AnsweredMail[];
  fromMs: readonly number[];
  countedFrom: CountedFrom | null;
  thresholds: Thresholds;
}

/** Returns the rates that have reached this level, the shortest period first. */
export function findings(level: 'warning' | 'critical', counted: Counted): ProtectionReason[] {
  const { counts, fromMs, countedFrom, thresholds } = counted;
  return PERIOD_DAYS.flatMap((periodDays, index) => {
    const before = countedFrom !== null && fromMs[index] === countedFrom.hourMs ? countedFrom : undefined;
    const all = counts[index]!;
    const rates = ratesOf({
      answered: all.answered - (before?.answered ?? 0),
      bouncedHard: all.bouncedHard - (before?.bouncedHard ?? 0),
      complained: all.complained - (before?.complained ?? 0),
    });
    return reaching(level, rates, thresholds).map((rate) => ({
      rate,
      share: rates[rate],
      answered: rates.answered,
      periodDays,
      threshold: thresholds[rate],
    }));
  });
}

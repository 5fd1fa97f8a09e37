/**
 * Rates of bounces and complaints of an account's live mail over the last day and the last seven, in whole hours, from the counters of
 * statistics: hard bounces alone, for those are the sender's addresses; a server that was down, or a lifetime that ended, is not. What came
 * before held mail was released no longer counts. Pure.
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

/** The beginning of its hour. */
export const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS) * HOUR_MS;

/** From which hour on each period is counted. */
export function beginnings(nowMs: number, countedFrom: CountedFrom | null): number[] {
  return PERIOD_DAYS.map((days) => Math.max(hourOf(nowMs - days * DAY_MS), countedFrom?.hourMs ?? 0));
}

function ratesOf(counts: AnsweredMail): Rates {
  const answered = Math.max(0, counts.answered);
  const share = (part: number): number => (answered === 0 ? 0 : Math.max(0, part) / answered);
  return { answered, bounceRate: share(counts.bouncedHard), complaintRate: share(counts.complained) };
}

interface Counted {
  /** What was answered in the hours from each of the beginnings on. */
  counts: readonly AnsweredMail[];
  fromMs: readonly number[];
  countedFrom: CountedFrom | null;
  thresholds: Thresholds;
}

/** The rates that have reached this level, the shortest period first. */
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
      ...{ rate, share: rates[rate], answered: rates.answered, periodDays, threshold: thresholds[rate] },
    }));
  });
}

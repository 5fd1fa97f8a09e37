/** Figures of a period, and how they differ from the period of the same length before it. */

/** Counts of an hour or day, as in GET /statistics. */
export interface Counts {
  accepted: number;
  delivered: number;
  bounced: { hard: number; soft: number; block: number };
  complained: number;
}

export interface PeriodTotals {
  accepted: number;
  delivered: number;
  bounced: number;
  complained: number;
  /** Delivered messages out of those delivered or bounced; undefined if there are none. */
  deliveryRate: number | undefined;
  bounceRate: number | undefined;
  /** Complaints per delivered message; undefined if nothing was delivered. */
  complaintRate: number | undefined;
}

export const bouncesOf = ({ bounced }: Pick<Counts, 'bounced'>): number => bounced.hard + bounced.soft + bounced.block;

const ratio = (part: number, whole: number): number | undefined => (whole === 0 ? undefined : part / whole);

export function totalsOf(buckets: readonly Counts[]): PeriodTotals {
  const sum = (of: (bucket: Counts) => number): number => buckets.reduce((total, bucket) => total + of(bucket), 0);
  const accepted = sum((one) => one.accepted);
  const delivered = sum((one) => one.delivered);
  const bounced = sum(bouncesOf);
  const complained = sum((one) => one.complained);
  return {
    accepted,
    delivered,
    bounced,
    complained,
    deliveryRate: ratio(delivered, delivered + bounced),
    bounceRate: ratio(bounced, delivered + bounced),
    complaintRate: ratio(complained, delivered),
  };
}

/** Splits a response that covers both periods; the period before has no buckets if the response covers only one. */
export function periodsOf<T>(buckets: readonly T[], length: number): { shown: T[]; before: T[] } {
  const from = Math.max(0, buckets.length - length);
  return { shown: buckets.slice(from), before: from < length ? [] : buckets.slice(from - length, from) };
}

/** Rates differ by percentage points; a difference that would be shown as 0.0 is none. */
export function pointsBetween(now: number | undefined, before: number | undefined, digits = 1): number | undefined {
  if (now === undefined || before === undefined) return undefined;
  const points = Number(((now - before) * 100).toFixed(digits));
  return points === 0 ? 0 : points;
}

/** Numbers differ by a share of the earlier one; undefined if it was 0. */
export function growth(now: number, before: number): number | undefined {
  if (before === 0) return undefined;
  const share = Number(((now - before) / before).toFixed(2));
  return share === 0 ? 0 : share;
}

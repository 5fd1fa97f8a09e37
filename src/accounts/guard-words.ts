/** What the reputation guard has found of an account, as the API shows it and in a sentence. */
import { iso } from '../base/clock.ts';
import type { Guard, GuardReason } from './guard-store.ts';

/** Rounded down, so that a share below a threshold is not shown as the threshold. */
const percent = (share: number): string => `${Math.floor(share * 100_000 + 1e-6) / 1_000} %`;

const MEANT = { bounceRate: 'bounced for good', complaintRate: 'were complained about' } as const;

/** The rate, what it is a share of, and the thresholds. */
export function reasonText({ rate, share, answered, periodDays, threshold }: GuardReason): string {
  const period = periodDays === 1 ? 'In the last 24 hours' : `In the last ${periodDays} days`;
  const { warning, critical } = threshold;
  const levels = [
    ...(warning > 0 ? [`high from ${percent(warning)}`] : []),
    ...(critical > 0 ? [`too high from ${percent(critical)}`] : []),
  ];
  return `${period} ${percent(share)} of ${answered} live messages ${MEANT[rate]}: ${levels.join(', ')}.`;
}

export function guardBody({ status, sinceMs, reason, countedFrom }: Guard) {
  return {
    ...{ status, since: sinceMs === null ? null : iso(sinceMs) },
    reason: reason === null ? null : reasonText(reason),
    countedSince: countedFrom === null ? null : iso(countedFrom.atMs),
  };
}

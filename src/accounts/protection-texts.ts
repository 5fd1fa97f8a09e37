/** Sending protection of an account as the API shows it, and its reason as a sentence. */
import { iso, isoOrNull } from '../base/clock.ts';
import type { ProtectionReason, SendingProtection } from './protection-store.ts';

/** Rounds down, so that a share below a threshold is not displayed as the threshold. */
const percent = (share: number): string => `${Math.floor(share * 100_000 + 1e-6) / 1_000} %`;

const MEANT = { bounceRate: 'hard-bounced', complaintRate: 'were complained about' } as const;

/** Describes the rate, its base, and the thresholds. */
export function reasonText({ rate, share, answered, periodDays, threshold }: ProtectionReason): string {
  const period = periodDays === 1 ? 'In the last 24 hours,' : `In the last ${periodDays} days,`;
  const { warning, critical } = threshold;
  const levels = [
    ...(warning > 0 ? [`warning at ${percent(warning)}`] : []),
    ...(critical > 0 ? [`hold at ${percent(critical)}`] : []),
  ];
  return `${period} ${percent(share)} of ${answered} live messages ${MEANT[rate]} (${levels.join(', ')}).`;
}

export function protectionBody({ status, sinceMs, reason, countedFrom }: SendingProtection) {
  return {
    status,
    since: isoOrNull(sinceMs),
    reason: reason === null ? null : reasonText(reason),
    countedSince: countedFrom === null ? null : iso(countedFrom.atMs),
  };
}

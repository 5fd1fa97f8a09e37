/** Rates of bounces and complaints at which sending protection acts: the standard thresholds, and overrides by the operator. */
import type { Issue } from '../base/failure.ts';

/** Shares at which a rate is high or too high; 0 disables a level. Rates of fewer than `minimumMessages` are not evaluated. */
export interface Threshold {
  warning: number;
  critical: number;
  /** Minimum messages with a known result in the period. */
  minimumMessages: number;
}

export const RATES = ['bounceRate', 'complaintRate'] as const;
export type RateName = (typeof RATES)[number];
export type Thresholds = Readonly<Record<RateName, Threshold>>;
/** Overrides by the operator for one account; missing values are standard. */
export type SetThresholds = Partial<Record<RateName, Partial<Threshold>>>;

/**
 * Complaints: Google and Yahoo consider 0.1 % high and 0.3 % too high (their sender guidelines). Bounces: Amazon SES puts accounts under
 * review at 5 % and pauses them at 10 %. Below a thousand messages a single complaint would exceed 0.1 %.
 */
export const THRESHOLDS: Thresholds = {
  bounceRate: { warning: 0.05, critical: 0.1, minimumMessages: 100 },
  complaintRate: { warning: 0.001, critical: 0.003, minimumMessages: 1_000 },
};

export function thresholdsOf(set: SetThresholds): Thresholds {
  const { bounceRate, complaintRate } = THRESHOLDS;
  return {
    bounceRate: { ...bounceRate, ...set.bounceRate },
    complaintRate: { ...complaintRate, ...set.complaintRate },
  };
}

/** Returns issues of warning levels that are reached together with or after the hold. Disabled levels are ignored. */
export function thresholdIssues(set: SetThresholds): Issue[] {
  const thresholds = thresholdsOf(set);
  return RATES.flatMap((name) => {
    const { warning, critical } = thresholds[name];
    if (warning === 0 || critical === 0 || warning < critical) return [];
    return [
      {
        field: `sendingProtection.${name}.warning`,
        message: `must be below critical (${critical}), but is ${warning}`,
      },
    ];
  });
}

/** Rates of messages with a known result. */
export type Rates = Readonly<Record<RateName, number>> & { readonly answered: number };

/** The rates that have reached a level. */
export function reaching(level: 'warning' | 'critical', rates: Rates, thresholds: Thresholds): RateName[] {
  return RATES.filter((name) => {
    const { minimumMessages, [level]: share } = thresholds[name];
    return share > 0 && rates.answered >= minimumMessages && rates[name] >= share;
  });
}

/** Advice for senders, by rate. */
export const ADVICE: Readonly<Record<RateName, string>> = {
  bounceRate: 'Many addresses do not exist. Confirm addresses when they are entered, and remove old ones.',
  complaintRate:
    'Many recipients mark your email as spam. Send only email that they requested, and make it easy to unsubscribe.',
};

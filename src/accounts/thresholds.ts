/** From which rates of bounces and complaints sending protection acts: the standard thresholds, and those that an operator has set instead. */
import type { Issue } from '../base/failure.ts';

/** From which share on a rate is high, and too high; 0 switches a level off. Nothing is said of fewer messages than `minimumMessages`. */
export interface Threshold {
  warning: number;
  critical: number;
  /** Messages that were answered for, in the period. */
  minimumMessages: number;
}

export const RATES = ['bounceRate', 'complaintRate'] as const;
export type RateName = (typeof RATES)[number];
export type Thresholds = Readonly<Record<RateName, Threshold>>;
/** What the operator has set for one account; what is left out is standard. */
export type SetThresholds = Partial<Record<RateName, Partial<Threshold>>>;

/**
 * Complaints: 0.1 % is much and 0.3 % too much for Google and Yahoo (their rules for senders); bounces: 5 and 10 %, as Amazon SES puts
 * accounts under review and pauses them. Of a thousand messages one complaint is 0.1 %: of fewer it says nothing.
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

/** Warnings that come too late: mail is held at a rate that is reached before or together with them. A level that is off is ignored. */
export function thresholdIssues(set: SetThresholds): Issue[] {
  const thresholds = thresholdsOf(set);
  return RATES.flatMap((name) => {
    const { warning, critical } = thresholds[name];
    if (warning === 0 || critical === 0 || warning < critical) return [];
    return [
      {
        field: `sendingProtection.${name}.warning`,
        message: `must be below critical (${critical}), and is ${warning}`,
      },
    ];
  });
}

/** Rates of messages that were answered for. */
export type Rates = Readonly<Record<RateName, number>> & { readonly answered: number };

/** The rates that have reached a level. */
export function reaching(level: 'warning' | 'critical', rates: Rates, thresholds: Thresholds): RateName[] {
  return RATES.filter((name) => {
    const { minimumMessages, [level]: share } = thresholds[name];
    return share > 0 && rates.answered >= minimumMessages && rates[name] >= share;
  });
}

/** What a sender can do about a rate. */
export const ADVICE: Readonly<Record<RateName, string>> = {
  bounceRate: 'Many addresses do not exist. Confirm addresses when they are entered, and remove old ones.',
  complaintRate:
    'Many recipients mark your email as spam. Send only email that they asked for, and make it easy to unsubscribe.',
};

/** How an attempt asks whether it may send now under a daily share or a limit that all nodes share (warm-up.ts, relay-limits.ts). */
import type { Outcome } from '../outcome/outcome.ts';

/** The messages that one attempt may still send. */
export interface Shares {
  /** Finds out whether something is left, if unknown. Rejects while the storage fails. */
  prepare(mails: number): Promise<void>;
  /** Whether this source address may have something left; undefined means the host. */
  hasCapacity(source: string | undefined): boolean;
  /** Takes up to this many messages; returns how many, 0 if nothing is left. Rejects while the storage fails. */
  take(source: string | undefined, mails: number): Promise<number>;
  /** Returns messages that were taken but not sent. */
  releaseUnused(source: string | undefined, mails: number): void;
  /** How long sending stops, and why. */
  untilMore(): { ms: number; outcome: Outcome };
}

export interface SendLimits {
  /** Undefined if mail for this destination is not limited. */
  of(destination: string): Shares | undefined;
  /** How much is used, as text; undefined if nothing is. */
  reasonOf(destination: string): string | undefined;
  /** Returns shares that were not used recently, or with `all` every share. */
  releaseUnused(options?: { all: boolean }): Promise<void>;
}

/** Combines two limits of different destinations. */
export function combine(one: SendLimits, other: SendLimits): SendLimits {
  return {
    of: (destination) => one.of(destination) ?? other.of(destination),
    reasonOf: (destination) => one.reasonOf(destination) ?? other.reasonOf(destination),
    releaseUnused: async (options) => {
      await Promise.all([one.releaseUnused(options), other.releaseUnused(options)]);
    },
  };
}

/** How an attempt asks whether it may send now under a daily share or a cap that all nodes share (warm-up.ts, relay-caps.ts). */
import type { Outcome } from '../outcome/outcome.ts';

/** What is left of the share for one attempt. */
export interface Shares {
  /** Finds out whether something is left, if unknown. Rejects while the storage fails. */
  prepare(mails: number): Promise<void>;
  /** Whether this source address may have something left; undefined means the host. */
  hasCapacity(source: string | undefined): boolean;
  /** Takes up to this many messages; returns how many, 0 if nothing is left. Rejects while the storage fails. */
  take(source: string | undefined, mails: number): Promise<number>;
  /** Returns messages that were taken but not sent. */
  giveBack(source: string | undefined, mails: number): void;
  /** How long sending stops, and why. */
  untilMore(): { ms: number; outcome: Outcome };
}

export interface Rationing {
  /** Undefined if mail for this destination is not limited. */
  of(destination: string): Shares | undefined;
  /** How much is used, as text; undefined if nothing is. */
  reasonOf(destination: string): string | undefined;
  /** Returns shares that were not used recently, or with `all` every share. */
  giveBack(options?: { all: boolean }): Promise<void>;
}

/** Combines two limits of different destinations. */
export function both(one: Rationing, other: Rationing): Rationing {
  return {
    of: (destination) => one.of(destination) ?? other.of(destination),
    reasonOf: (destination) => one.reasonOf(destination) ?? other.reasonOf(destination),
    giveBack: async (options) => {
      await Promise.all([one.giveBack(options), other.giveBack(options)]);
    },
  };
}

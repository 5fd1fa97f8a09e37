/**
 * What the engine needs to know of a kind of work, and what it knows of a piece of it.
 *
 * Each kind has a fair queue of its own, made of lanes that take turns (lanes.ts). One queue for all kinds would be more complicated than
 * three: deliveries share sessions (a slot sends mail after mail to one destination, for several accounts, within a share of 500 and under
 * pauses), webhooks share single requests (slow lanes have a budget of their own), and inbound mail shares memory. What they have in common
 * is what the engine asks for here.
 */
import type { Clock } from '../base/clock.ts';
import { type ClaimLimits, DEAD_LETTER_AFTER_CRASHES, isQuarantined, type Lease } from './store.ts';

/** A claimed row with what its attempt needs. */
export interface Job extends Lease {
  readonly crashes: number;
  readonly lane: string;
  /** Sandbox: what the account's clock is ahead of the real time. */
  readonly clockOffsetMs?: number;
}

export type State = 'claimed' | 'waiting' | 'running' | 'settling' | 'gone';

/** The states that may follow each state; engine.ts says what they mean. */
export const NEXT_STATES: Readonly<Record<State, readonly State[]>> = {
  claimed: ['waiting', 'settling', 'gone'],
  waiting: ['running', 'settling', 'gone'],
  running: ['waiting', 'settling', 'gone'],
  settling: ['gone'],
  gone: [],
};

/** A job in the hands of this process; engine.ts has the states. */
export interface Item<J extends Job = Job> {
  readonly job: J;
  state: State;
  /** Unix ms; not later than the lease in the database. 0 when the lease was lost during an attempt. */
  leaseUntilMs: number;
  /** It was running in two crashes: one such item is in hand at a time. */
  quarantined: boolean;
  /** When it happens by the clock of its mode, while that clock is moved. */
  atMs?: number;
}

/** A claimed job with its lease. */
export function claimedItem<J extends Job>(job: J, leaseUntilMs: number): Item<J> {
  return { job, state: 'claimed', leaseUntilMs, quarantined: isQuarantined(job) };
}

/** Unix ms by the clock of the item's mode. */
export function timeOf({ atMs, job }: Item, clock: Clock): number {
  return atMs ?? clock.now() + (job.clockOffsetMs ?? 0);
}

export interface LaneGrant {
  lane: string;
  limit: number;
}

/** Whose turn is next, and how much may wait in memory. */
export interface FairQueue<I extends Item> {
  /** Takes an item in, `first` at the front of its lane; false when its lane or its account is over quota. */
  admit(item: I, options: { first: boolean; laneHasParked: boolean }): boolean;
  /** The engine has changed the state of an item. */
  changed(item: I, from: State): void;
  /** How many rows may be claimed at once while `size` items are in hand; 0: none. */
  capacity(size: number): number;
  /** Enough waits: claims only look now and then for what is behind somebody's backlog. */
  isFed(size: number): boolean;
  /** How many parked rows of each lane may come back while `size` items are in hand; lanes without room are left out. */
  resumable(lanes: readonly string[], size: number): LaneGrant[];
}

export interface ClaimRequest extends ClaimLimits {
  /** Lanes over their quota whose rows are at the head of the queue: many of them are parked before anything is claimed. */
  overQuota: string[];
}

export interface Claimed<I extends Item> {
  items: I[];
  /** Rows that were looked at; as many as asked for means that there may be more. */
  taken: number;
  /** Lanes of the request that still had due rows; these were parked. */
  overQuota: string[];
}

/** What is done with a row, however it was chosen. `R` is the result of an attempt, as it is recorded. */
export interface Steps<I extends Item, R extends Lease> {
  /** As in the column of the table. */
  readonly kind: string;
  claim(request: ClaimRequest): Promise<Claimed<I>>;
  /** The result of an item that was running in three crashes: it is not tried again. */
  deadLetter(item: I): R;
  /** The result of an item that ends or waits without an attempt; undefined if it is to be tried. */
  withoutAttempt(item: I): R | undefined;
  /** Records results in one transaction; answers the rows whose lease was lost, of which nothing was recorded. */
  record(results: R[]): Promise<readonly number[]>;
}

/** The result of an item that is not tried; undefined if it is to be tried. */
export function untriedResult<I extends Item, R extends Lease>(kind: Steps<I, R>, item: I): R | undefined {
  return item.job.crashes >= DEAD_LETTER_AFTER_CRASHES ? kind.deadLetter(item) : kind.withoutAttempt(item);
}

/** A kind whose rows the engine chooses. */
export interface WorkKind<I extends Item, R extends Lease> extends Steps<I, R> {
  readonly queue: FairQueue<I>;
  /** How long a row waits over which our own code failed. */
  readonly crashDelayMs: number;
  /** Between two claims that found little, where rows may wait for others to go through every step with them. */
  readonly claimGapMs?: number;
  /** Starts what may start now: each attempt within Engine.run(). */
  start(): void;
  /** Whether a result is the last word; one that is tried again need not be remembered when its lease was lost. */
  isFinal(result: R): boolean;
  /** Brings forward what is due later than the schedule allows, after the clock was set back; answers how many. */
  repairSchedule(options: { isSetBack: boolean }): Promise<number>;
  /** Every second: whatever else the kind looks after. */
  tick(): Promise<void> | void;
}

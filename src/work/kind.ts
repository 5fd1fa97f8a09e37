/**
 * The interface between the engine and a kind of work.
 *
 * Each kind has its own fair queue, made of lanes that take turns (lanes.ts). One queue for all kinds would be more complicated than three:
 * deliveries share sessions (a slot sends message after message to one destination, for several accounts, with 500 slots and pauses),
 * webhooks are single requests (slow lanes have a separate budget), and inbound mail shares memory. Their common part is what the engine
 * requires here.
 */
import type { Clock } from '../base/clock.ts';
import { type ClaimExtent, type ClaimLimits, DEAD_LETTER_AFTER_CRASHES, isQuarantined, type Lease } from './store.ts';

/** A claimed row with the data that its attempt needs. */
export interface Job extends Lease {
  readonly crashes: number;
  readonly lane: string;
  /** Sandbox: how far the account's clock is ahead of the real time. */
  readonly clockOffsetMs?: number;
}

export type State = 'claimed' | 'waiting' | 'running' | 'settling' | 'gone';

/** The states that may follow each state; engine.ts explains them. */
export const NEXT_STATES: Readonly<Record<State, readonly State[]>> = {
  claimed: ['waiting', 'settling', 'gone'],
  waiting: ['running', 'settling', 'gone'],
  running: ['waiting', 'settling', 'gone'],
  settling: ['gone'],
  gone: [],
};

/** A job held by this process; engine.ts explains the states. */
export interface Item<J extends Job = Job> {
  readonly job: J;
  state: State;
  /** Unix ms; not later than the lease in the database. 0 if the lease was lost during an attempt. */
  leaseUntilMs: number;
  /** The item was running in two crashes: one such item is held at a time. */
  quarantined: boolean;
  /** The time of the attempt by the clock of the item's mode, while that clock is moved. */
  atMs?: number;
}

/** Returns an item for a claimed job with its lease. */
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

/** Decides whose turn is next, and how much may wait in memory. */
export interface FairQueue<I extends Item> {
  /** Adds an item, `first` at the front of its lane; returns false if its lane or its account is over quota. */
  admit(item: I, options: { first: boolean; laneHasParked: boolean }): boolean;
  /** The engine has changed the state of an item. */
  changed(item: I, from: State): void;
  /** How many rows may be claimed while `size` items are held; 0 for none. */
  capacity(size: number): number;
  /** Whether enough items wait: claims then only check occasionally for work behind one lane's backlog. */
  isFed(size: number): boolean;
  /** How many parked rows of each lane may return while `size` items are held; lanes without capacity are omitted. */
  resumable(lanes: readonly string[], size: number): LaneGrant[];
}

export interface ClaimRequest extends ClaimLimits {
  /** Lanes over their quota with rows at the head of the queue: many of those are parked before the claim. */
  overQuota: string[];
}

export interface ClaimResult<I extends Item> {
  items: I[];
  /** The extent of the claim, including rows that are not among the items. */
  taken: ClaimExtent;
  /** Lanes of the request that still had due rows; these were parked. */
  overQuota: string[];
}

/** The steps of a row, however it was chosen. `R` is the result of an attempt, as recorded. */
export interface Steps<I extends Item, R extends Lease> {
  /** The value of the table's column. */
  readonly kind: string;
  claim(request: ClaimRequest): Promise<ClaimResult<I>>;
  /** Returns the result of an item that was running in three crashes: it is not retried. */
  deadLetter(item: I): R;
  /** Returns the result of an item that ends or waits without an attempt; undefined if it needs one. */
  withoutAttempt(item: I): R | undefined;
  /** Records results in one transaction; returns the rows whose lease was lost, for which nothing was recorded. */
  record(results: R[]): Promise<readonly number[]>;
}

/** Returns the result of an item that needs no attempt; undefined if it needs one. */
export function untriedResult<I extends Item, R extends Lease>(kind: Steps<I, R>, item: I): R | undefined {
  return item.job.crashes >= DEAD_LETTER_AFTER_CRASHES ? kind.deadLetter(item) : kind.withoutAttempt(item);
}

/** A kind whose rows the engine claims. */
export interface WorkKind<I extends Item, R extends Lease> extends Steps<I, R> {
  readonly queue: FairQueue<I>;
  /** How long a row waits after a bug failed its attempt. */
  readonly crashDelayMs: number;
  /** Time between two claims that found little, so that rows can pass every step in one batch. */
  readonly claimGapMs?: number;
  /** Starts the attempts that may start now, each within Engine.run(). */
  start(): void;
  /** Whether a result is final; a result to be retried need not be remembered if its lease was lost. */
  isFinal(result: R): boolean;
  /** Brings forward rows that are due later than the schedule allows, after the clock was set back; returns their number. */
  repairSchedule(options: { isSetBack: boolean }): Promise<number>;
  /** Called every second, for other duties of the kind. */
  tick(): Promise<void> | void;
}

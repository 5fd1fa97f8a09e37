/**
 * The part of the backlog that is in memory: bounded in jobs and bytes, whatever the backlog's size. It also bounds what one
 * lane, one account and one destination may have waiting here, so that nobody's backlog fills it: what is beyond is set
 * aside in the queue and called back when there is room.
 *
 *   waiting ──▶ trying ──▶ settling ──▶ gone
 *      ▲          │
 *      └──────────┘  (put back: the attempt never reached the peer)
 */

import type { DeliveryJob } from '../messages/messages.ts';
import { isQuarantined } from '../work/work.ts';
import type { Prepared } from './attempt.ts';

/** What the recipients of one email share while any of them is here. */
export interface WindowEmail {
  seq: number;
  inline: Uint8Array | null;
  jobs: Set<Held>;
  /** Recipients whose attempt runs. */
  trying: number;
  prepared: Promise<Prepared> | undefined;
}

export interface Held {
  job: DeliveryJob;
  email: WindowEmail;
  destination: string;
  /** `gone`: it is not in the window any more, whoever still holds this. */
  state: 'waiting' | 'trying' | 'settling' | 'gone';
  /** Unix ms; not later than the lease in the queue. */
  leaseUntilMs: number;
  /** How often it was put back without an attempt. */
  returns: number;
  quarantined: boolean;
}

export interface WindowLimits {
  jobs: number;
  bytes: number;
  /** Waiting jobs of one lane, one account, one destination. */
  lane: number;
  account: number;
  destination: number;
  /** The same of a destination that was not heard of lately, when its account has half of its jobs here: it has one slot only. */
  unproven: number;
}

export const WINDOW_LIMITS: WindowLimits = {
  jobs: 2_000,
  bytes: 64_000_000,
  lane: 400,
  account: 800,
  destination: 500,
  unproven: 2,
};
/** Of what an account may have waiting, the part for destinations that were not heard of lately; the rest is kept for the others. */
const UNPROVEN_PART = 9 / 10;

export interface Window {
  readonly size: number;
  readonly quarantined: number;
  get(seq: number): Held | undefined;
  values(): Iterable<Held>;
  /** How many jobs fit, and whether so many bytes do. */
  room(bytes?: number): number;
  /** Whether one more job may wait here; `crowded` when rows of its lane are set aside already. */
  fits(lane: string, destination: string, crowded: boolean): boolean;
  add(job: DeliveryJob, options: { destination: string; leaseUntilMs: number }): Held;
  move(held: Held, state: Held['state']): void;
  remove(held: Held): void;
  /** Takes a job out of quarantine for as long as it is here. */
  clear(held: Held): void;
  /** How many rows of a lane may be called back from the queue; 0 while it is more than half full. */
  callable(lane: string, destination: string): number;
}

/** `account/domain`, as the intake names lanes. */
export function accountOfLane(lane: string): string {
  const slash = lane.indexOf('/');
  return slash === -1 ? lane : lane.slice(0, slash);
}

function count(map: Map<string, number>, key: string, by: number): void {
  const next = (map.get(key) ?? 0) + by;
  if (next === 0) map.delete(key);
  else map.set(key, next);
}

export interface WindowOptions {
  /** Destinations that everybody shares: the relay and the sandbox. */
  shared: ReadonlySet<string>;
  /** Whether a destination answered lately, or takes no places here (its mail is put off). */
  isProven(destination: string): boolean;
}

export function openWindow(limits: WindowLimits, { shared, isProven }: WindowOptions): Window {
  const held = new Map<number, Held>();
  const emails = new Map<number, WindowEmail>();
  const lanes = new Map<string, number>();
  const accounts = new Map<string, number>();
  const destinations = new Map<string, number>();
  let bytes = 0;
  let quarantined = 0;

  const countWaiting = (one: Held, by: number): void => {
    count(lanes, one.job.lane, by);
    count(accounts, accountOfLane(one.job.lane), by);
    count(destinations, one.destination, by);
  };
  const free = (lane: string, destination: string): [lane: number, account: number, destination: number] => {
    const inLane = limits.lane - (lanes.get(lane) ?? 0);
    const inAccount = accounts.get(accountOfLane(lane)) ?? 0;
    if (shared.has(destination)) return [inLane, limits.account - inAccount, limits.jobs];
    const proven = isProven(destination);
    const narrow = !proven && inAccount >= limits.account / 2;
    const most = narrow ? Math.min(limits.unproven, limits.destination) : limits.destination;
    return [
      inLane,
      limits.account * (proven ? 1 : UNPROVEN_PART) - inAccount,
      most - (destinations.get(destination) ?? 0),
    ];
  };

  return {
    get size() {
      return held.size;
    },
    get quarantined() {
      return quarantined;
    },
    get: (seq) => held.get(seq),
    values: () => held.values(),
    room: (more = 0) => (bytes + more > limits.bytes ? 0 : Math.max(0, limits.jobs - held.size)),
    fits: (lane, destination, crowded) => {
      const [inLane, inAccount, inDestination] = free(lane, destination);
      return inLane > (crowded ? limits.lane / 2 : 0) && inAccount > 0 && inDestination > 0;
    },
    add: (job, { destination, leaseUntilMs }) => {
      let email = emails.get(job.emailSeq);
      if (!email) {
        email = { seq: job.emailSeq, inline: job.content, jobs: new Set(), trying: 0, prepared: undefined };
        emails.set(job.emailSeq, email);
        bytes += job.content?.length ?? 0;
      }
      // One copy of the content for all recipients: the job is ours from here on.
      job.content = null;
      const isAlone = isQuarantined(job);
      const one: Held = { job, email, destination, state: 'waiting', leaseUntilMs, returns: 0, quarantined: isAlone };
      held.set(job.seq, one);
      email.jobs.add(one);
      if (isAlone) quarantined += 1;
      countWaiting(one, 1);
      return one;
    },
    move: (one, state) => {
      if (one.state === state) return;
      if (one.state === 'waiting') countWaiting(one, -1);
      if (state === 'waiting') countWaiting(one, 1);
      if (one.state === 'trying') one.email.trying -= 1;
      if (state === 'trying') one.email.trying += 1;
      one.state = state;
      // Content that came from a blob is large: it stays in memory only while somebody is sending it.
      if (one.email.trying === 0 && one.email.inline === null) one.email.prepared = undefined;
    },
    remove: (one) => {
      if (!held.delete(one.job.seq)) return;
      if (one.state === 'waiting') countWaiting(one, -1);
      if (one.state === 'trying') one.email.trying -= 1;
      if (one.quarantined) quarantined -= 1;
      // The schedule passes over what no longer waits: a lane must not stand still behind it.
      one.state = 'gone';
      one.email.jobs.delete(one);
      if (one.email.jobs.size > 0) return;
      emails.delete(one.email.seq);
      bytes -= one.email.inline?.length ?? 0;
    },
    clear: (one) => {
      if (one.quarantined && held.has(one.job.seq)) quarantined -= 1;
      one.quarantined = false;
    },
    callable: (lane, destination) => {
      const [inLane, inAccount, inDestination] = free(lane, destination);
      if (inLane < limits.lane / 2) return 0;
      return Math.max(0, Math.floor(Math.min(inLane, inAccount, inDestination)));
    },
  };
}

/**
 * How jobs come into the window and how they stay ours: claims, handovers, leases, and the rows that are set aside because
 * their lane is full. Always true:
 *
 * - A row that we hold and that comes back under a new fence (its lease looked expired, because the clock jumped) is the
 *   same job: it takes the new fence and is not sent twice.
 * - Leases are extended before anything is claimed whenever one of them looks expired, so that we do not take our own.
 * - When the database was away, what others hold is left to them for a while: their leases ended without their fault.
 * - Rows that are to be set aside and could not be, because the storage refuses, are set aside at the next tick.
 * - Rows set aside are called back when their lane has drained below half; newcomers have the last quarter of the window
 *   for themselves.
 */

import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import { DELIVERY_WORK, type DeliveryJob } from '../messages/messages.ts';
import type { Database } from '../storage/database.ts';
import {
  DEAD_LETTER_AFTER_CRASHES,
  extendOperation,
  isFreeOnly,
  type Lease,
  parkedLanesOperation,
  putBackOperation,
  resumeOperation,
} from '../work/work.ts';
import { claimOperation } from './claim.ts';
import type { Settler } from './settler.ts';
import type { Held, Window, WindowLimits } from './window.ts';

/** How long a claim or a handover lasts without being extended. */
export const DELIVERY_LEASE_MS = 60_000;
/** Extended when less than this is left; with a tick each second that is every 15 s. */
const EXTEND_BELOW_MS = 45_000;
/** No attempt begins with less than this left. */
const LEASE_MARGIN_MS = 5_000;
const CLAIM_BATCH = 100;
const EXTEND_BATCH = 500;
const MAX_HELD_LANES = 1_000;

export interface IntakeDeps {
  database: Database;
  clock: Clock;
  log: Log;
  window: Window;
  limits: WindowLimits;
  settler: Settler;
  destinationOf(job: DeliveryJob): string;
  destinationOfLane(lane: string): string;
  /** Whether jobs may be claimed at the moment. */
  open(): boolean;
  /** How old the process must be before it takes what is in quarantine. */
  quarantineAfterMs: number;
  /** A job is in the window and waits. */
  onWaiting(held: Held): void;
  isPaused(destination: string): boolean;
  /** A job came for a destination that is paused: it is put off, and takes no room here. */
  onPaused(held: Held): void;
  /** A job crashed its workers too often. */
  onDeadLetter(held: Held): void;
  /** A job's address was suppressed while it waited. */
  onSuppressed(held: Held): void;
  /** A job was lost to somebody else while it waited. */
  onLost(held: Held): void;
  /** Everything was taken in: attempts may begin. */
  onReady(): void;
}

export interface Intake {
  receive(jobs: DeliveryJob[], leaseUntilMs: number): void;
  /** Claims what is due until the window is full or nothing is left; calls come together. */
  claim(): Promise<unknown>;
  /** Resolves when no claim is under way. */
  settled(): Promise<void>;
  /** Extends leases that run short; `all` extends every one. */
  extend(options?: { all: boolean }): Promise<boolean>;
  /** Whether the lease is good for an attempt. */
  holds(held: Held): boolean;
  /** Calls back rows that were set aside, where there is room. */
  callBack(): Promise<void>;
  /** Whether rows of the lane are set aside. */
  isCrowded(lane: string): boolean;
  release(jobs: { seq: number; fence: number }[]): Promise<void>;
}

export function startIntake(deps: IntakeDeps): Intake {
  const { database, clock, window, limits, log } = deps;
  let crowdedLanes = new Set<string>();
  let claiming: Promise<boolean> | undefined;
  let claimAgain = false;
  let extending: Promise<boolean> | undefined;
  let callingBack = false;
  let lastLane = '';
  let seenLanes = new Set<string>();
  /** Rows of full lanes whose setting aside is not recorded yet. */
  let aside: Lease[] = [];
  const startedAt = performance.now();

  /** Runs an operation whose failure is mended by the next tick. */
  const tolerate = async (what: string, work: () => Promise<void>): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (error) {
      const level = error instanceof Unavailable ? 'warn' : 'error';
      log[level]({ error: (error as Error).message }, what);
      return false;
    }
  };

  const adopt = (held: Held, job: DeliveryJob, leaseUntilMs: number): void => {
    if (job.fence <= held.job.fence) return;
    held.job.fence = job.fence;
    held.leaseUntilMs = leaseUntilMs;
    if (held.state === 'settling') deps.settler.adopt(job.seq, job.fence);
  };

  /** Takes one job in; answers it when its lane is full and it must be set aside. */
  const take = (job: DeliveryJob, leaseUntilMs: number): DeliveryJob | undefined => {
    const held = window.get(job.seq);
    if (held) {
      adopt(held, job, leaseUntilMs);
      return undefined;
    }
    const recorded = deps.settler.recall(job.seq);
    const destination = deps.destinationOf(job);
    const isDead = job.crashes >= DEAD_LETTER_AFTER_CRASHES;
    const crowded = crowdedLanes.has(job.lane);
    const ends = recorded !== undefined || isDead || job.suppressed === true;
    const paused = deps.isPaused(destination);
    if (!ends && !paused && !window.fits(job.lane, destination, crowded)) return job;
    const added = window.add(job, { destination, leaseUntilMs });
    if (recorded) {
      window.move(added, 'settling');
      deps.settler.add({ ...recorded, fence: job.fence });
    } else if (job.suppressed) deps.onSuppressed(added);
    else if (isDead) deps.onDeadLetter(added);
    else if (paused) deps.onPaused(added);
    else deps.onWaiting(added);
    return undefined;
  };

  const setAside = (): Promise<boolean> => {
    const leases = aside;
    aside = [];
    return tolerate('messages could not be set aside; the next tick tries again', async () => {
      try {
        await database.execute(putBackOperation, { park: leases, nowMs: clock.now() });
      } catch (error) {
        aside.push(...leases);
        throw error;
      }
    });
  };

  const receive = (jobs: DeliveryJob[], leaseUntilMs: number): void => {
    for (const job of jobs) {
      if (take(job, leaseUntilMs) === undefined) continue;
      crowdedLanes.add(job.lane);
      aside.push({ seq: job.seq, fence: job.fence });
    }
    if (aside.length > 0) void setAside();
    deps.onReady();
  };

  const extend = async ({ all } = { all: false }): Promise<void> => {
    if (aside.length > 0) await setAside();
    const now = clock.now();
    const due = [...window.values()].filter((held) => all || held.leaseUntilMs < now + EXTEND_BELOW_MS);
    for (let from = 0; from < due.length; from += EXTEND_BATCH) {
      const batch = due.slice(from, from + EXTEND_BATCH);
      const fences = new Map(batch.map((held) => [held, held.job.fence]));
      const leases = batch.map((held) => ({ seq: held.job.seq, fence: held.job.fence }));
      const untilMs = now + DELIVERY_LEASE_MS;
      const lost = new Set(await database.execute(extendOperation, { leases, nowMs: now, leaseMs: DELIVERY_LEASE_MS }));
      for (const held of batch) {
        if (!lost.has(held.job.seq)) held.leaseUntilMs = untilMs;
        else if (held.job.fence !== fences.get(held)) continue;
        else if (held.state === 'waiting') deps.onLost(held);
        // An attempt under way writes no final dot; if it has, and the row comes back to us, its result is recorded then.
        else held.leaseUntilMs = 0;
      }
    }
  };

  const extendOnce = (options?: { all: boolean }): Promise<boolean> => {
    extending ??= tolerate('leases could not be extended', () => extend(options)).finally(() => {
      extending = undefined;
    });
    return extending;
  };

  const claimBatch = async (): Promise<boolean> => {
    const limit = Math.min(window.room(), CLAIM_BATCH);
    if (limit === 0 || !deps.open()) return false;
    const nowMs = clock.now();
    if ([...window.values()].some((held) => held.leaseUntilMs <= nowMs + LEASE_MARGIN_MS)) await extendOnce();
    const quarantined = window.quarantined === 0 && performance.now() - startedAt >= deps.quarantineAfterMs;
    const freeOnly = isFreeOnly(database.state());
    const request = { nowMs, leaseMs: DELIVERY_LEASE_MS, limit, quarantined, freeOnly };
    const { jobs, taken } = await database.execute(claimOperation, request);
    receive(jobs, nowMs + DELIVERY_LEASE_MS);
    return taken >= limit;
  };

  const claim = (): Promise<boolean> => {
    claimAgain = true;
    claiming ??= tolerate('due messages could not be claimed', async () => {
      while (claimAgain) {
        claimAgain = false;
        while (await claimBatch());
      }
    }).finally(() => {
      claiming = undefined;
    });
    return claiming;
  };

  const callBack = async (): Promise<void> => {
    if (callingBack || !deps.open()) return;
    callingBack = true;
    await tolerate('messages that were set aside could not be called back', async () => {
      // Each look goes on where the last one ended, so that every lane has its turn however many there are.
      const known = await database.execute(parkedLanesOperation, {
        kind: DELIVERY_WORK,
        after: lastLane,
        limit: MAX_HELD_LANES,
      });
      const ended = known.length < MAX_HELD_LANES;
      if (lastLane === '') seenLanes = new Set();
      for (const lane of known) seenLanes.add(lane);
      lastLane = ended ? '' : known.at(-1)!;
      // What this page did not cover is known from the pages before; a whole round replaces it.
      crowdedLanes = ended ? seenLanes : new Set([...crowdedLanes, ...known]);
      let room = Math.floor(limits.jobs * 0.75) - window.size;
      const calls: { lane: string; limit: number }[] = [];
      for (const lane of known) {
        const limit = Math.min(window.callable(lane, deps.destinationOfLane(lane)), room);
        if (limit <= 0) continue;
        calls.push({ lane, limit });
        room -= limit;
      }
      if (calls.length === 0) return;
      const resumed = await database.execute(resumeOperation, {
        kind: DELIVERY_WORK,
        nowMs: clock.now(),
        lanes: calls,
      });
      if (resumed.some((count) => count > 0)) void claim();
    });
    callingBack = false;
  };

  return {
    receive,
    claim,
    extend: extendOnce,
    holds: (held) => held.leaseUntilMs > clock.now() + LEASE_MARGIN_MS,
    callBack,
    settled: async () => {
      await claiming;
    },
    isCrowded: (lane) => crowdedLanes.has(lane),
    release: async (jobs) => {
      await tolerate('messages could not be given back; their leases run out', async () => {
        const leases = [...aside, ...jobs.map(({ seq, fence }) => ({ seq, fence }))];
        aside = [];
        if (leases.length > 0) await database.execute(putBackOperation, { release: leases, nowMs: clock.now() });
      });
    },
  };
}

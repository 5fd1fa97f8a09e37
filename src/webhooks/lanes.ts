/**
 * Which waiting event is sent next. Every endpoint has a lane; lanes take turns, and each has a bound on attempts in
 * flight and on rows in memory. A lane whose answers take long is slow: slow lanes share a budget of their own, and what
 * they hold back counts against nobody else, so that a dead endpoint delays no other.
 *
 *   normal ──an attempt takes slowAfterMs or more──▶ slow ──an answer comes sooner──▶ normal
 *
 * Knows neither time nor network: the caller says when attempts end and which have been under way for long.
 */

export interface LaneLimits {
  /** Attempts in flight of all normal lanes together. */
  inFlight: number;
  /** Attempts in flight up to which slow lanes may start more; lanes that turn slow bring theirs along. */
  slowInFlight: number;
  /** Attempts in flight per lane. */
  perLane: number;
  /** The same for a slow lane once half of slowInFlight is taken. */
  perSlowLane: number;
  /** Rows in memory per lane, in flight or waiting. */
  window: number;
  slowWindow: number;
}

export const LANE_LIMITS: LaneLimits = {
  inFlight: 500,
  slowInFlight: 500,
  perLane: 50,
  perSlowLane: 4,
  window: 1_500,
  slowWindow: 60,
};

/** Lanes looked at for one that may start; the others come first at the next look. */
const MOST_LOOKS = 200;
/** Lanes remembered as slow while nothing of theirs is in memory; beyond, they start as normal again. */
const REMEMBERED = 20_000;

export interface Lane<J> {
  readonly id: string;
  inFlight: number;
  /** Waiting jobs; those before `head` have left. */
  queue: J[];
  head: number;
  slow: boolean;
}

export interface Lanes<J> {
  /** Takes a job in, at the end of its lane or with `first` at its front; false when its lane is full. */
  admit(laneId: string, job: J, options?: { first: boolean }): boolean;
  /** The next job that may start now, of those the caller allows; it counts as in flight until ended(). */
  next(allows?: (job: J) => boolean): { lane: Lane<J>; job: J } | undefined;
  ended(lane: Lane<J>, slow: boolean): void;
  /** An attempt of this lane has been under way for long; answers the waiting jobs it has no more room for. */
  slowed(lane: Lane<J>): J[];
  /** Takes out everything that waits in a lane. */
  evict(laneId: string): J[];
  /** Rows a lane has room for, once half of its window is free; 0 before that. A lane that is not known has its whole window. */
  resumable(laneId: string): number;
  /** Rows of normal lanes in memory. */
  normalRows(): number;
  inFlight(): number;
}

function waitingOf(lane: Lane<unknown>): number {
  return lane.queue.length - lane.head;
}

function sizeOf(lane: Lane<unknown>): number {
  return lane.inFlight + waitingOf(lane);
}

function kind(lane: Lane<unknown>): 'normal' | 'slow' {
  return lane.slow ? 'slow' : 'normal';
}

export function createLanes<J>(limits: LaneLimits = LANE_LIMITS): Lanes<J> {
  const lanes = new Map<string, Lane<J>>();
  const ready = new Set<Lane<J>>();
  const slowReady = new Set<Lane<J>>();
  const inFlight = { normal: 0, slow: 0 };
  const rows = { normal: 0, slow: 0 };

  const windowOf = (lane: Lane<J>): number => (lane.slow ? limits.slowWindow : limits.window);

  const capacity = (lane: Lane<J>): number =>
    lane.slow && inFlight.slow * 2 >= limits.slowInFlight ? limits.perSlowLane : limits.perLane;

  /** A lane is listed as ready exactly while something waits and its own attempts leave room for more. */
  const list = (lane: Lane<J>): void => {
    const listed = lane.slow ? slowReady : ready;
    if (waitingOf(lane) > 0 && lane.inFlight < capacity(lane)) listed.add(lane);
    else listed.delete(lane);
  };

  const setSlow = (lane: Lane<J>, slow: boolean): void => {
    if (lane.slow === slow) return;
    (lane.slow ? slowReady : ready).delete(lane);
    inFlight[kind(lane)] -= lane.inFlight;
    rows[kind(lane)] -= sizeOf(lane);
    lane.slow = slow;
    inFlight[kind(lane)] += lane.inFlight;
    rows[kind(lane)] += sizeOf(lane);
    list(lane);
  };

  const forget = (lane: Lane<J>): void => {
    if (sizeOf(lane) === 0 && (!lane.slow || lanes.size > REMEMBERED)) lanes.delete(lane.id);
  };

  const take = (lane: Lane<J>, count: number): J[] => {
    const taken = lane.queue.splice(lane.queue.length - count, count);
    rows[kind(lane)] -= taken.length;
    list(lane);
    return taken;
  };

  const laneOf = (laneId: string): Lane<J> => {
    let lane = lanes.get(laneId);
    if (!lane) {
      lane = { id: laneId, inFlight: 0, queue: [], head: 0, slow: false };
      lanes.set(laneId, lane);
    }
    return lane;
  };

  const startFrom = (
    listed: Set<Lane<J>>,
    allows: ((job: J) => boolean) | undefined,
  ): { lane: Lane<J>; job: J } | undefined => {
    let looks = Math.min(listed.size, MOST_LOOKS);
    for (const lane of listed) {
      if (looks === 0) return undefined;
      looks -= 1;
      // Out and in again at the end: lanes take turns.
      listed.delete(lane);
      if (lane.inFlight >= capacity(lane)) continue;
      const job = lane.queue[lane.head]!;
      if (allows?.(job) === false) {
        listed.add(lane);
        continue;
      }
      lane.head += 1;
      if (lane.head > 64 && lane.head * 2 > lane.queue.length) {
        lane.queue = lane.queue.slice(lane.head);
        lane.head = 0;
      }
      lane.inFlight += 1;
      inFlight[kind(lane)] += 1;
      list(lane);
      return { lane, job };
    }
    return undefined;
  };

  return {
    admit: (laneId, job, { first } = { first: false }) => {
      const lane = laneOf(laneId);
      if (sizeOf(lane) >= windowOf(lane)) return false;
      if (first) lane.queue.splice(lane.head, 0, job);
      else lane.queue.push(job);
      rows[kind(lane)] += 1;
      list(lane);
      return true;
    },
    next: (allows) => {
      const normal = inFlight.normal < limits.inFlight ? startFrom(ready, allows) : undefined;
      return normal ?? (inFlight.slow < limits.slowInFlight ? startFrom(slowReady, allows) : undefined);
    },
    ended: (lane, slow) => {
      lane.inFlight -= 1;
      inFlight[kind(lane)] -= 1;
      rows[kind(lane)] -= 1;
      setSlow(lane, slow);
      list(lane);
      forget(lane);
    },
    slowed: (lane) => {
      setSlow(lane, true);
      const excess = Math.min(sizeOf(lane) - limits.slowWindow, waitingOf(lane));
      return excess > 0 ? take(lane, excess) : [];
    },
    evict: (laneId) => {
      const lane = lanes.get(laneId);
      return lane ? take(lane, waitingOf(lane)) : [];
    },
    resumable: (laneId) => {
      const lane = lanes.get(laneId);
      if (!lane) return limits.window;
      const room = windowOf(lane) - sizeOf(lane);
      return room * 2 >= windowOf(lane) ? room : 0;
    },
    normalRows: () => rows.normal,
    inFlight: () => inFlight.normal + inFlight.slow,
  };
}

/**
 * Attempts that one account may start between two pauses: at most 1,300 a second. The pause is what counts: with 8 starts in each
 * turn of the event loop and no pause the others stayed 4 times slower; 8 and a pause of 2 ms made it 3 times, with or without
 * smaller transactions of claims and results.
 */
export const AT_ONCE = 4;
const PAUSE_MS = 3;
/** So long after the last mail its sender may still be about to send the next. */
export const ACCEPTING_MS = 100;

export interface Pace {
  /** Mail was accepted just now. */
  giveWay(): void;
  /** Whether an account may start one more attempt now. */
  allows(accountId: string): boolean;
  started(accountId: string): void;
  stop(): void;
}

/** `resume` is called when accounts that were refused may start more; `nowMs` is a clock that only goes forward. */
export function createPace(resume: () => void, nowMs: () => number = () => performance.now()): Pace {
  const starts = new Map<string, number>();
  let acceptedAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  const goOn = (): void => {
    timer = undefined;
    starts.clear();
    resume();
  };
  return {
    giveWay: () => {
      acceptedAtMs = nowMs();
    },
    allows: (accountId) => (starts.get(accountId) ?? 0) < AT_ONCE,
    started: (accountId) => {
      if (nowMs() - acceptedAtMs > ACCEPTING_MS) return;
      starts.set(accountId, (starts.get(accountId) ?? 0) + 1);
      timer ??= setTimeout(goOn, PAUSE_MS);
    },
    stop: () => clearTimeout(timer),
  };
}

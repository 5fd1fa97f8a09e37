/**
 * Whose turn it is. Destinations take turns for the connections of the process, lanes (account and domain) take turns for
 * those of their destination, and within a lane it is first come, first served. So the backlog of one tenant costs another
 * one nothing but its share, and a domain that swallows connections holds no more than its limit.
 *
 * The limit of a destination moves between `floor` and `ceiling`: it grows by one when as many messages as it allows
 * connections have gone through, and shrinks by a quarter when a connection could not be opened or the peer said 421. A peer
 * that refuses one more connection while it serves others has told us its own limit: it is kept for a minute.
 */
import type { Held } from './window.ts';

export interface ConnectionLimits {
  initial: number;
  floor: number;
  ceiling: number;
}

/** Postfix: default_destination_concurrency_limit is 20, initial_destination_concurrency 5. */
export const MX_CONNECTIONS: ConnectionLimits = { initial: 5, floor: 2, ceiling: 20 };
export const RELAY_CONNECTIONS: ConnectionLimits = { initial: 20, floor: 2, ceiling: 50 };

/** What is left of limits that hold for several processes together; never less than one connection. */
export function sharedLimits(limits: ConnectionLimits, share: number): ConnectionLimits {
  if (share === 1) return limits;
  const part = (whole: number): number => Math.max(1, Math.floor(whole * share));
  return { initial: part(limits.initial), floor: part(limits.floor), ceiling: part(limits.ceiling) };
}

/** Recipients in one transaction; RFC 5321 §4.5.3.1.8 promises room for 100, some servers give less. */
const MAX_GROUP = 50;
const TOLD_MS = 60_000;
const MAX_IDLE_DESTINATIONS = 2_000;

interface Lane {
  name: string;
  /** Whoever is no longer waiting is skipped. */
  queue: Held[];
  head: number;
}

export interface Destination {
  readonly key: string;
  /** Slots that run: each has one connection, or is opening one. */
  active: number;
  limit: number;
  /** The peer's own limit, and the monotonic ms until which it is kept. */
  told: { limit: number; until: number } | undefined;
  /** Jobs that wait for a slot. */
  waiting: number;
  /** Whether it stands in the row of destinations that want a slot. */
  queued: boolean;
  readonly ring: Lane[];
  readonly lanes: Map<string, Lane>;
}

export interface Schedule {
  /** Puts a waiting job at the end of its lane, or with `first` at its front. */
  add(held: Held, options?: { first: boolean }): void;
  /** To be told when a job stopped waiting in another way than by next(). */
  forget(held: Held): void;
  /** A destination with waiting jobs and a free slot, in turn; its `active` is raised. */
  open(): Destination | undefined;
  /** Ends a slot; with `rests` the destination asks for no other one until wake(), since nothing of it may start now. */
  close(destination: Destination, options?: { rests: boolean }): void;
  /** Lets destinations that rest ask again. */
  wake(): void;
  /**
   * What to send next to this destination: recipients of one email, at most 50; the caller marks them as trying. Lanes
   * whose first job may not start now are passed over, and so are its fellows that may not.
   */
  next(destination: Destination, mayStart: (held: Held) => boolean): Held[] | undefined;
  /** Everybody who waits for the destination, at most so many. */
  waitingAt(destination: Destination, limit: number): Held[];
  succeeded(destination: Destination): void;
  /** A connection failed; `served` is the number of ours that the peer serves while it refuses one more. */
  failed(destination: Destination, served: number): void;
  readonly active: number;
  /** All slots are taken and somebody wants one: a slot should end after its message. */
  readonly crowded: boolean;
}

export interface ScheduleOptions {
  connectionsFor(destination: string): ConnectionLimits;
  /** Slots of the whole process. */
  slots: number;
}

export function openSchedule(options: ScheduleOptions): Schedule {
  const destinations = new Map<string, Destination>();
  const row: Destination[] = [];
  const resting = new Set<Destination>();
  let active = 0;
  let sweepAt = MAX_IDLE_DESTINATIONS;

  const want = (destination: Destination): void => {
    if (destination.queued || destination.waiting === 0 || resting.has(destination)) return;
    destination.queued = true;
    row.push(destination);
  };

  /** The ceiling may have come down since the limit grew: other processes take their share. */
  const limitOf = ({ key, limit }: Destination): number => Math.min(limit, options.connectionsFor(key).ceiling);

  const destinationOf = (key: string): Destination => {
    let found = destinations.get(key);
    if (!found) {
      const { initial } = options.connectionsFor(key);
      found = {
        key,
        active: 0,
        limit: initial,
        told: undefined,
        waiting: 0,
        queued: false,
        ring: [],
        lanes: new Map(),
      };
      destinations.set(key, found);
    }
    return found;
  };

  /** The first waiting job of a lane; the lane is dropped when it has none. */
  const peek = (destination: Destination, lane: Lane): Held | undefined => {
    while (lane.head < lane.queue.length) {
      const held = lane.queue[lane.head]!;
      if (held.state === 'waiting') return held;
      lane.head += 1;
    }
    destination.lanes.delete(lane.name);
    return undefined;
  };

  const sameTransaction = (first: Held, mayStart: (held: Held) => boolean): Held[] => {
    const group = [first];
    if (first.suspect || first.email.jobs.size === 1) return group;
    for (const held of first.email.jobs) {
      if (group.length === MAX_GROUP) break;
      if (held === first || held.suspect || held.state !== 'waiting') continue;
      if (held.destination === first.destination && mayStart(held)) group.push(held);
    }
    return group;
  };

  const forgetIdle = (): void => {
    if (destinations.size < sweepAt) return;
    for (const one of destinations.values()) {
      if (one.active === 0 && one.waiting === 0 && !resting.has(one)) destinations.delete(one.key);
    }
    sweepAt = Math.max(MAX_IDLE_DESTINATIONS, destinations.size * 2);
  };

  return {
    get active() {
      return active;
    },
    get crowded() {
      return active >= options.slots && row.length > 0;
    },
    add: (held, { first } = { first: false }) => {
      const destination = destinationOf(held.destination);
      destination.waiting += 1;
      let lane = destination.lanes.get(held.job.lane);
      if (!lane) {
        lane = { name: held.job.lane, queue: [], head: 0 };
        destination.lanes.set(lane.name, lane);
        destination.ring.push(lane);
      }
      if (!first) lane.queue.push(held);
      else if (lane.head > 0) {
        lane.head -= 1;
        lane.queue[lane.head] = held;
      } else lane.queue.unshift(held);
      if (!first) resting.delete(destination);
      want(destination);
    },
    forget: (held) => {
      destinationOf(held.destination).waiting -= 1;
    },
    open: () => {
      if (active >= options.slots) return undefined;
      for (let destination = row.shift(); destination; destination = row.shift()) {
        destination.queued = false;
        // At its limit it leaves the row, and is put back when a slot ends or the limit grows.
        if (destination.waiting === 0 || destination.active >= Math.floor(limitOf(destination))) continue;
        destination.active += 1;
        active += 1;
        want(destination);
        return destination;
      }
      return undefined;
    },
    close: (destination, { rests } = { rests: false }) => {
      destination.active -= 1;
      active -= 1;
      if (rests) resting.add(destination);
      else want(destination);
      forgetIdle();
    },
    wake: () => {
      const rested = [...resting];
      resting.clear();
      for (const destination of rested) want(destination);
    },
    next: (destination, mayStart) => {
      for (let lanes = destination.ring.length; lanes > 0; lanes -= 1) {
        const lane = destination.ring.shift()!;
        const first = peek(destination, lane);
        if (!first) continue;
        destination.ring.push(lane);
        if (!mayStart(first)) continue;
        if (lane.head > 512) {
          lane.queue = lane.queue.slice(lane.head);
          lane.head = 0;
        }
        const group = sameTransaction(first, mayStart);
        destination.waiting -= group.length;
        return group;
      }
      return undefined;
    },
    waitingAt: (destination, limit) => {
      const found = new Set<Held>();
      for (const lane of destination.ring) {
        for (let i = lane.head; i < lane.queue.length && found.size < limit; i += 1) {
          const held = lane.queue[i]!;
          if (held.state === 'waiting') found.add(held);
        }
      }
      return [...found];
    },
    succeeded: (destination) => {
      let { ceiling } = options.connectionsFor(destination.key);
      if (destination.told) {
        if (destination.told.until > performance.now()) ceiling = destination.told.limit;
        else destination.told = undefined;
      }
      if (destination.limit >= ceiling) return;
      destination.limit = Math.min(ceiling, destination.limit + 1 / destination.limit);
      want(destination);
    },
    failed: (destination, served) => {
      const { floor } = options.connectionsFor(destination.key);
      if (served > 0) {
        destination.told = { limit: served, until: performance.now() + TOLD_MS };
        destination.limit = served;
        return;
      }
      destination.limit = Math.max(floor, destination.limit * 0.75);
    },
  };
}

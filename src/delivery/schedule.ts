/**
 * Whose turn it is. Destinations take turns for the connections of the process, lanes (account and domain) take turns for
 * those of their destination, and within a lane it is first come, first served. So the backlog of one tenant costs another
 * one nothing but its share, and a domain that swallows connections holds no more than its limit. An account whose domains
 * swallow them by the hundred holds four times as many slots as are free at most: of 500 it gets 400, two such accounts
 * get 222 each, and there is always a slot for somebody else (dynamic thresholds: Choudhury and Hahne, 1998).
 *
 * The limit of a destination moves between `floor` and `ceiling`: it grows by one when as many messages as it allows
 * connections have gone through, and shrinks by a quarter when a connection could not be opened or the peer said 421. A peer
 * that refuses one more connection while it serves others has told us its own limit: it is kept for a minute.
 */
import { accountOfLane, type Held } from './window.ts';

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
/** Slots that one account may hold for each that is free. */
const HELD_FOR_EACH_FREE = 4;
/** Where several accounts have mail for a destination. */
const SHARED = '';

interface Lane {
  name: string;
  /** Whoever is no longer waiting is skipped. Places before `head` are empty: the mail is not to stay in memory behind it. */
  queue: (Held | undefined)[];
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
  /** In whose row it stands, wanting a slot: that of the account which alone has mail for it, or of SHARED ones. */
  queued: string | undefined;
  readonly ring: Lane[];
  readonly lanes: Map<string, Lane>;
}

export interface Schedule {
  /** Puts a waiting job at the end of its lane, or with `first` at its front. */
  add(held: Held, options?: { first: boolean }): void;
  /** To be told when a job stopped waiting in another way than by next(). */
  forget(held: Held): void;
  /** A slot for a destination with waiting jobs, in turn; its `active` is raised. */
  open(): Slot | undefined;
  /** Ends a slot; with `rests` the destination asks for no other one until wake(), since nothing of it may start now. */
  close(slot: Slot, options?: { rests: boolean }): void;
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
  /** Somebody wants a slot and gets none: this one should end after its message. */
  isCrowded(slot: Slot): boolean;
}

export interface Slot {
  readonly destination: Destination;
  /** Whom it is counted for: an account, or SHARED. */
  readonly owner: string;
}

export interface ScheduleOptions {
  connectionsFor(destination: string): ConnectionLimits;
  /** Slots of the whole process. */
  slots: number;
}

export function openSchedule(options: ScheduleOptions): Schedule {
  const destinations = new Map<string, Destination>();
  /** Those that want a slot: the owners take turns, and so do the destinations of one. Those that left it are skipped. */
  const rows = new Map<string, Destination[]>();
  const heldBy = new Map<string, number>();
  const resting = new Set<Destination>();
  let active = 0;
  let sweepAt = MAX_IDLE_DESTINATIONS;

  const ownerOf = ({ ring }: Destination): string => (ring.length === 1 ? accountOfLane(ring[0]!.name) : SHARED);

  const want = (destination: Destination): void => {
    if (destination.waiting === 0 || resting.has(destination)) return;
    const owner = ownerOf(destination);
    // Mail of another account may have come since: it must not wait for the first one's share.
    if (destination.queued === owner || destination.queued === SHARED) return;
    destination.queued = owner;
    const row = rows.get(owner);
    if (row) row.push(destination);
    else rows.set(owner, [destination]);
  };

  const hasShare = (owner: string): boolean => (heldBy.get(owner) ?? 0) < HELD_FOR_EACH_FREE * (options.slots - active);

  /** The next of a row that can take a slot; at its limit it leaves the row, and is put back when a slot ends or that grows. */
  const takeFrom = (owner: string, row: Destination[]): Destination | undefined => {
    for (let destination = row.shift(); destination; destination = row.shift()) {
      if (destination.queued !== owner) continue;
      destination.queued = undefined;
      if (destination.waiting > 0 && destination.active < Math.floor(limitOf(destination))) return destination;
    }
    return undefined;
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
        queued: undefined,
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
      lane.queue[lane.head] = undefined;
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
    isCrowded: ({ owner }) => (active >= options.slots ? rows.size > 0 : !hasShare(owner) && rows.has(owner)),
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
      for (const [owner, row] of rows) {
        if (!hasShare(owner)) continue;
        const destination = takeFrom(owner, row);
        rows.delete(owner);
        // Behind the others.
        if (row.length > 0) rows.set(owner, row);
        if (!destination) continue;
        destination.active += 1;
        active += 1;
        heldBy.set(owner, (heldBy.get(owner) ?? 0) + 1);
        want(destination);
        return { destination, owner };
      }
      return undefined;
    },
    close: ({ destination, owner }, { rests } = { rests: false }) => {
      destination.active -= 1;
      active -= 1;
      const held = (heldBy.get(owner) ?? 0) - 1;
      if (held > 0) heldBy.set(owner, held);
      else heldBy.delete(owner);
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

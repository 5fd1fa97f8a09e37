/**
 * Decides which destination gets the next slot, and which message is sent first. Destinations get the slots of the process in round-robin
 * order, within the limits of the registry. Within a destination, accounts are served in round-robin order (waiting-mail.ts). So one
 * tenant's backlog uses no more than that tenant's share, and a slow domain occupies no more connections than its limit.
 *
 * An account with hundreds of slow domains can hold up to four times as many slots as are free: 400 of 500 for one such account, 222 each
 * for two. So there is always a slot for another account (dynamic thresholds: Choudhury and Hahne, 1998). A tenth of an account's slots is
 * reserved for destinations that replied in the last 10 minutes, so a hundred stalled domains do not delay the account's mail to a fast
 * one.
 */

import type { Destination, Registry } from '../destinations/registry.ts';
import type { MxSets } from '../routing/mx-sets.ts';
import type { DeliveryItem } from './delivery-item.ts';
import { WaitingMail, type Wanted } from './waiting-mail.ts';

/** Recipients in one transaction; RFC 5321 §4.5.3.1.8 guarantees 100, some servers accept fewer. */
const MAX_GROUP = 50;
/** An account can hold this part of the slots that other accounts do not use: four for each slot that stays free. */
const ACCOUNT_PART = 4 / 5;
/** Destinations that have not replied recently can hold this part of an account's slots. */
const UNPROVEN_PART = 9 / 10;
/** While other mail waits, a slot prefers the domains of its session for this many messages in a row. */
const KEPT_TO_SESSION = 10;
/** The owner of a destination for which several accounts have mail. */
const SHARED = '';

/** Jobs that wait for one destination. */
export interface Queue {
  readonly destination: Destination;
  readonly waiting: WaitingMail;
  /** The row in which this queue waits for a slot; undefined if it wants none. */
  row: Row | undefined;
}

/** Destinations of one owner that want a slot. The owner is the only account with mail for them, or SHARED. */
interface Row {
  owner: string;
  /** Whether these destinations replied recently. */
  proven: boolean;
  /** Queues that have left the row are skipped. */
  queues: Queue[];
}

export interface Slot {
  readonly queue: Queue;
  readonly destination: Destination;
  /** The account that the slot is counted for, or SHARED. */
  readonly owner: string;
  proven: boolean;
  /** Whether the slot has no session yet. */
  opening: boolean;
  /** Messages in a row that were chosen because the session serves their domain. */
  keptTo: number;
}

export interface DestinationLoad {
  key: string;
  /** Jobs in memory that wait for a slot. */
  waiting: number;
  /** Running slots. */
  active: number;
}

export interface ScheduleOptions {
  registry: Registry;
  /** Slots of the whole process. */
  slots: number;
  /** Whether the recipients of this email share a transaction; the default is yes. */
  mayShare?(job: DeliveryItem['job']): boolean;
  /** Queues of domains whose destination is not known yet get no slot. */
  sets?: Pick<MxSets, 'isPending'>;
}

interface Share {
  held: number;
  unproven: number;
}

function sameTransaction(first: DeliveryItem, mayStart: (item: DeliveryItem) => boolean): DeliveryItem[] {
  const group = [first];
  if (first.quarantined || first.email.jobs.size === 1) return group;
  for (const item of first.email.jobs) {
    if (group.length === MAX_GROUP) break;
    if (item === first || item.quarantined || item.state !== 'waiting') continue;
    if (item.hop.destination !== first.hop.destination || item.domain !== first.domain) continue;
    if (mayStart(item)) group.push(item);
  }
  return group;
}

function rowKey(owner: string, proven: boolean): string {
  return `${proven ? '+' : '-'}${owner}`;
}

export class Schedule {
  readonly #registry: Registry;
  readonly #slots: number;
  readonly #sets: Pick<MxSets, 'isPending'> | undefined;
  readonly #mayShare: (job: DeliveryItem['job']) => boolean;
  readonly #queues = new Map<string, Queue>();
  /** Keyed by `rowKey`, in round-robin order. */
  readonly #rows = new Map<string, Row>();
  readonly #shares = new Map<string, Share>();
  /** Queues that get no slot until wake(), since nothing in them can start now. */
  readonly #onHold = new Set<Queue>();
  #active = 0;

  constructor({ registry, slots, sets, mayShare = () => true }: ScheduleOptions) {
    this.#registry = registry;
    this.#slots = slots;
    this.#sets = sets;
    this.#mayShare = mayShare;
  }

  get active(): number {
    return this.#active;
  }

  /** Adds a waiting job at the end of its lane, or at the front if `first` is set. */
  add(item: DeliveryItem, { first } = { first: false }): void {
    const queue = this.#queueOf(item.hop.destination);
    queue.waiting.add(item, { first });
    if (!first) this.#onHold.delete(queue);
    this.#want(queue);
  }

  /** Removes a job that no longer waits, although next() did not return it. */
  forget(item: DeliveryItem): void {
    const queue = this.#queueOf(item.hop.destination);
    queue.waiting.remove(item);
    this.#forgetIfEmpty(queue);
  }

  /** Removes and returns the jobs that wait for a domain at a destination, in order. */
  takeDomain(key: string, domain: string): DeliveryItem[] {
    const queue = this.#queues.get(key);
    if (!queue) return [];
    const taken = queue.waiting.takeDomain(domain);
    this.#forgetIfEmpty(queue);
    return taken;
  }

  /** Opens a slot for a destination that has waiting jobs and may run one more. */
  open(): Slot | undefined {
    if (this.#active >= this.#slots) return undefined;
    for (const [key, row] of this.#rows) {
      const { owner, proven } = row;
      if (!this.#hasShare(owner, proven)) continue;
      const queue = this.#takeFrom(row);
      this.#rows.delete(key);
      // Moves to the end of the rows.
      if (row.queues.length > 0) this.#rows.set(key, row);
      if (!queue) continue;
      const { destination } = queue;
      this.#count(owner, proven, 1);
      this.#registry.slotBegan(destination);
      this.#want(queue);
      return { queue, destination, owner, proven, opening: true, keptTo: 0 };
    }
    return undefined;
  }

  /** Records that the slot has its session, so more slots may be opened for the destination. */
  opened(slot: Slot): void {
    if (!slot.opening) return;
    slot.opening = false;
    this.#registry.sessionOpened(slot.destination);
    this.#want(slot.queue);
  }

  /** Ends a slot. If `onHold` is set, the destination gets no new slot until wake(), since nothing for it can start now. */
  close(slot: Slot, { onHold } = { onHold: false }): void {
    this.opened(slot);
    this.#registry.slotEnded(slot.destination);
    this.#count(slot.owner, slot.proven, -1);
    if (onHold) this.#onHold.add(slot.queue);
    else this.#want(slot.queue);
    this.#forgetIfEmpty(slot.queue);
  }

  /** Returns whether this slot should end after its message, because other queues want a slot and none is free for them. */
  shouldYield({ owner }: Slot): boolean {
    if (this.#active >= this.#slots) return this.#rows.size > 0;
    return [true, false].some((proven) => this.#rows.has(rowKey(owner, proven)) && !this.#hasShare(owner, proven));
  }

  /** Adds all queues to their rows again, including those that close() put on hold. */
  wake(): void {
    this.#onHold.clear();
    for (const queue of this.#queues.values()) this.#want(queue);
  }

  /** Must be called when the registry changes the limits of a destination. */
  changed({ key }: Destination): void {
    const queue = this.#queues.get(key);
    if (queue) this.#want(queue);
  }

  /**
   * Returns the next messages for this slot: up to 50 recipients of one email in one domain, which the caller must start immediately. Skips
   * lanes whose first job may not start now, and recipients of the same email that may not. Mail that the slot's session serves comes
   * first, for a limited number of messages in a row.
   */
  next(slot: Slot, { mayStart, isFor }: Wanted): DeliveryItem[] | undefined {
    const { queue } = slot;
    if (!slot.proven && this.#registry.isProven(queue.destination.key)) {
      slot.proven = true;
      this.#shares.get(slot.owner)!.unproven -= 1;
    }
    if (!this.#registry.maySend(queue.destination)) return undefined;
    const kept = isFor && slot.keptTo < KEPT_TO_SESSION ? queue.waiting.next({ mayStart, isFor }) : undefined;
    slot.keptTo = kept ? slot.keptTo + 1 : 0;
    const first = kept ?? queue.waiting.next({ mayStart });
    if (!first) return undefined;
    const group = this.#mayShare(first.job) ? sameTransaction(first, mayStart) : [first];
    for (const item of group) if (item !== first) queue.waiting.remove(item);
    this.#registry.sending(queue.destination, group.length);
    return group;
  }

  /** Returns up to `limit` messages that wait for the destination. */
  waitingAt({ key }: Destination, limit?: number, isWanted?: (item: DeliveryItem) => boolean): DeliveryItem[] {
    return this.#queues.get(key)?.waiting.all(limit, isWanted) ?? [];
  }

  /** Returns up to `limit` destinations with the most waiting jobs and slots. */
  busiest(limit: number): DestinationLoad[] {
    return [...this.#queues.values()]
      .map(({ destination: { key, active }, waiting }) => ({ key, waiting: waiting.size, active }))
      .sort((a, b) => b.waiting + b.active - a.waiting - a.active)
      .slice(0, limit);
  }

  /** Adds a destination to the end of its row, unless it is already there. */
  #want(queue: Queue): void {
    if (queue.waiting.size === 0 || this.#onHold.has(queue)) return;
    const proven = this.#registry.isProven(queue.destination.key);
    // Another account's mail may have arrived since the queue joined its row. It must not wait for the first account's share.
    const owner = queue.row?.owner === SHARED ? SHARED : (queue.waiting.onlyAccount ?? SHARED);
    if (queue.row?.owner === owner && queue.row.proven === proven) return;
    const key = rowKey(owner, proven);
    let row = this.#rows.get(key);
    if (!row) {
      row = { owner, proven, queues: [] };
      this.#rows.set(key, row);
    }
    row.queues.push(queue);
    queue.row = row;
  }

  #hasShare(owner: string, proven: boolean): boolean {
    const { held, unproven } = this.#shares.get(owner) ?? { held: 0, unproven: 0 };
    const max = ACCOUNT_PART * (this.#slots - this.#active + held);
    return held < max && (proven || unproven < UNPROVEN_PART * max);
  }

  /** Returns the next queue of a row that can use a slot; removes queues that cannot from the row until something changes. */
  #takeFrom(row: Row): Queue | undefined {
    for (let queue = row.queues.shift(); queue; queue = row.queues.shift()) {
      if (queue.row !== row) continue;
      queue.row = undefined;
      const { destination } = queue;
      if (queue.waiting.size === 0 || this.#sets?.isPending(destination.key)) continue;
      if (this.#registry.mayOpen(destination)) return queue;
    }
    return undefined;
  }

  #queueOf(key: string): Queue {
    let found = this.#queues.get(key);
    if (!found) {
      found = { destination: this.#registry.of(key), waiting: new WaitingMail(), row: undefined };
      this.#queues.set(key, found);
    }
    return found;
  }

  #count(owner: string, proven: boolean, by: number): void {
    const share = this.#shares.get(owner) ?? { held: 0, unproven: 0 };
    share.held += by;
    if (!proven) share.unproven += by;
    this.#active += by;
    if (share.held > 0) this.#shares.set(owner, share);
    else this.#shares.delete(owner);
  }

  #forgetIfEmpty(queue: Queue): void {
    if (queue.waiting.size > 0 || queue.destination.active > 0) return;
    this.#queues.delete(queue.destination.key);
    this.#onHold.delete(queue);
  }
}

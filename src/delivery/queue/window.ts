/**
 * The part of the backlog that is in memory, limited in jobs and bytes whatever the size of the backlog. It also limits what one account
 * has waiting for one destination, and each account and each destination in total, so that no single backlog fills it: the rest is parked
 * in the database and resumed when there is capacity. The last quarter is reserved for new mail.
 */
import type { FairQueue, LaneGrant, State } from '../../work/work.ts';
import type { Registry } from '../destinations/registry.ts';
import type { MxSets } from '../routing/mx-sets.ts';
import { type Routing, routedDomainOf, SHARED_DESTINATIONS } from '../routing/route.ts';
import { accountOfLane, type DeliveryItem, type Hop, type WindowEmail } from './delivery-item.ts';
import type { Schedule } from './schedule.ts';

export interface WindowLimits {
  jobs: number;
  bytes: number;
  /** Waiting jobs of one account for one destination (with a relay: of one lane), of one account, and for one destination. */
  lane: number;
  account: number;
  destination: number;
  /**
   * The same limit for a destination that has not answered recently, when its account uses half of its jobs: such a destination has one
   * slot only.
   */
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
/** The part of an account's waiting jobs for destinations that have not answered recently; the rest is reserved for the others. */
const UNPROVEN_PART = 9 / 10;
/** The fill level up to which claims follow each other and parked jobs are resumed. */
const FED_PART = 3 / 4;
const CLAIM_BATCH = 100;

function count(map: Map<string, number>, key: string, by: number): void {
  const next = (map.get(key) ?? 0) + by;
  if (next === 0) map.delete(key);
  else map.set(key, next);
}

export interface WindowOptions {
  limits: WindowLimits;
  schedule: Schedule;
  registry: Pick<Registry, 'isProven' | 'pauseOf'>;
  sets: Pick<MxSets, 'lookUp' | 'destinationOf'>;
  routing: Pick<Routing, 'route'>;
}

export class Window implements FairQueue<DeliveryItem> {
  readonly #options: WindowOptions;
  readonly #emails = new Map<number, WindowEmail>();
  /** By account and destination; if all mail shares the destination, by lane. */
  readonly #lanes = new Map<string, number>();
  readonly #accounts = new Map<string, number>();
  readonly #destinations = new Map<string, number>();
  #bytes = 0;

  constructor(options: WindowOptions) {
    this.#options = options;
  }

  /** Returns how many jobs fit in addition to `size` others, and whether the bytes do. */
  room(size: number, moreBytes = 0): number {
    const { limits } = this.#options;
    return this.#bytes + moreBytes > limits.bytes ? 0 : Math.max(0, limits.jobs - size);
  }

  capacity(size: number): number {
    return Math.min(this.room(size), CLAIM_BATCH);
  }

  isFed(size: number): boolean {
    return size >= this.#options.limits.jobs * FED_PART;
  }

  admit(item: DeliveryItem, { first, laneHasParked }: { first: boolean; laneHasParked: boolean }): boolean {
    const isBack = item.email.jobs.has(item);
    if (!isBack) {
      const [inLane, inAccount, inDestination] = this.#free(item.job.lane, item.hop.destination);
      // Parked jobs are older: half of the lane is reserved for them.
      const least = laneHasParked ? this.#options.limits.lane / 2 : 0;
      if (inLane <= least || inAccount <= 0 || inDestination <= 0) return false;
      this.#shareEmail(item);
    }
    // Its turn may be some time away: look up its hosts in the meantime.
    if (!SHARED_DESTINATIONS.has(item.domain)) this.#options.sets.lookUp(item.domain);
    this.#options.schedule.add(item, { first });
    // A message that is tried alone does not wait for its turn, since the next quarantined one waits for it.
    if (item.quarantined) this.#options.schedule.wake();
    return true;
  }

  changed(item: DeliveryItem, from: State): void {
    const { email, state } = item;
    if (!email.jobs.has(item)) return;
    if (from === 'waiting') this.#countWaiting(item, -1);
    if (state === 'waiting') this.#countWaiting(item, 1);
    if (from === 'waiting' && state !== 'running') this.#options.schedule.forget(item);
    if (from === 'running') email.trying -= 1;
    if (state === 'running') email.trying += 1;
    // Content from a blob is large: it stays in memory only while it is being sent.
    if (email.trying === 0 && email.inline === null) email.prepared = undefined;
    if (state === 'gone') this.#leaveEmail(item);
  }

  /** Moves waiting mail for this domain to another destination; returns the moved messages. */
  move(domain: string, { from, to }: { from: string; to: string }): DeliveryItem[] {
    const moved = this.#options.schedule.takeDomain(from, domain);
    for (const item of moved) {
      this.#countWaiting(item, -1);
      item.hop = { ...item.hop, destination: to };
      this.#countWaiting(item, 1);
      this.#options.schedule.add(item, { first: false });
    }
    return moved;
  }

  /** Changes the hop of a message; a waiting message moves to the end of its lane there. */
  redirect(item: DeliveryItem, hop: Hop): void {
    if (item.state !== 'waiting') {
      item.hop = hop;
      return;
    }
    this.#countWaiting(item, -1);
    this.#options.schedule.forget(item);
    item.hop = hop;
    this.#countWaiting(item, 1);
    this.#options.schedule.add(item, { first: false });
  }

  /** First one row per lane, since most have only one; the remaining capacity goes to the lanes in order. */
  resumable(lanes: readonly string[], size: number): LaneGrant[] {
    const { limits } = this.#options;
    let room = Math.floor(limits.jobs * FED_PART) - size;
    const taken = new Map<string, number>();
    const granted = new Map<string, number>();
    const grant = (lane: string, most: number): void => {
      const destination = this.#destinationOfLane(lane);
      const account = `account ${accountOfLane(lane)}`;
      const [inLane, inAccount, inDestination] = this.#free(lane, destination);
      if (inLane < limits.lane / 2) return;
      const before = granted.get(lane) ?? 0;
      const leftInAccount = inAccount - (taken.get(account) ?? 0);
      const leftInDestination = inDestination - (taken.get(destination) ?? 0);
      const more = Math.floor(Math.min(inLane - before, leftInAccount, leftInDestination, room, most));
      if (more <= 0) return;
      granted.set(lane, before + more);
      room -= more;
      count(taken, account, more);
      count(taken, destination, more);
    };
    for (const lane of lanes) grant(lane, 1);
    for (const lane of granted.keys()) grant(lane, limits.lane);
    return [...granted].map(([lane, limit]) => ({ lane, limit }));
  }

  #shareEmail(item: DeliveryItem): void {
    const known = this.#emails.get(item.email.seq);
    if (known) item.email = known;
    else {
      this.#emails.set(item.email.seq, item.email);
      this.#bytes += item.email.inline?.length ?? 0;
    }
    item.email.jobs.add(item);
  }

  #leaveEmail(item: DeliveryItem): void {
    const { email } = item;
    email.jobs.delete(item);
    if (email.jobs.size > 0) return;
    this.#emails.delete(email.seq);
    this.#bytes -= email.inline?.length ?? 0;
  }

  #destinationOfLane(lane: string): string {
    const { routing, sets } = this.#options;
    return sets.destinationOf(routedDomainOf(routing, `@${lane.slice(lane.indexOf('/') + 1)}`));
  }

  #countWaiting({ job: { lane }, hop: { destination } }: DeliveryItem, by: number): void {
    count(this.#lanes, this.#laneKey(lane, destination), by);
    count(this.#accounts, accountOfLane(lane), by);
    count(this.#destinations, destination, by);
  }

  #laneKey(lane: string, destination: string): string {
    return SHARED_DESTINATIONS.has(destination) ? lane : `${accountOfLane(lane)}/${destination}`;
  }

  #free(lane: string, destination: string): [lane: number, account: number, destination: number] {
    const { limits, registry } = this.#options;
    const inLane = limits.lane - (this.#lanes.get(this.#laneKey(lane, destination)) ?? 0);
    const inAccount = this.#accounts.get(accountOfLane(lane)) ?? 0;
    if (SHARED_DESTINATIONS.has(destination)) return [inLane, limits.account - inAccount, limits.jobs];
    // Mail of a paused destination leaves the window immediately: it is deferred.
    const proven = registry.isProven(destination) || registry.pauseOf(destination) !== undefined;
    const narrow = !proven && inAccount >= limits.account / 2;
    const most = narrow ? Math.min(limits.unproven, limits.destination) : limits.destination;
    return [
      inLane,
      limits.account * (proven ? 1 : UNPROVEN_PART) - inAccount,
      most - (this.#destinations.get(destination) ?? 0),
    ];
  }
}

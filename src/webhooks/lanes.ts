/**
 * Decides which waiting event is sent next. Every endpoint has a lane with limits on requests in flight and on rows in memory. A lane with
 * slow responses is slow: slow lanes share a separate budget, so that a dead endpoint delays no other.
 *
 * normal ──an attempt takes slowAfterMs or more──▶ slow ──a faster response──▶ normal
 *
 * Has no timer and no network: the caller reports when attempts end and which have been running for long.
 */
import { Lanes } from '../work/work.ts';

export interface LaneLimits {
  /** Requests in flight of all normal lanes together. */
  inFlight: number;
  /** Requests in flight up to which slow lanes may start more; lanes that become slow keep theirs. */
  slowInFlight: number;
  perLane: number;
  /** The limit per lane whose requests can have several events: a few, so that batches form when events arrive faster than responses. */
  perBatchLane: number;
  /** The limit per slow lane once half of slowInFlight is used. */
  perSlowLane: number;
  /** Rows in memory per lane, in flight or waiting. */
  window: number;
  slowWindow: number;
}

export const LANE_LIMITS: LaneLimits = {
  inFlight: 500,
  slowInFlight: 500,
  perLane: 50,
  perBatchLane: 8,
  perSlowLane: 4,
  window: 1_500,
  slowWindow: 60,
};

/** Lanes that are tried to find one that may start; the others come first next time. */
const MAX_EXAMINED = 200;
/** Lanes that are remembered as slow without rows in memory; above this, they start as normal again. */
const REMEMBERED = 20_000;

export interface EndpointLane {
  readonly id: string;
  /** The most events of a request. */
  maxBatch: number;
  /** Requests. */
  inFlight: number;
  /** Rows of these requests. */
  rowsInFlight: number;
  slow: boolean;
}

/** The normal lanes, or the slow ones. */
interface Group<J> {
  readonly waiting: Lanes<J>;
  /** Requests. */
  inFlight: number;
  rowsInFlight: number;
}

export class EndpointLanes<J> {
  readonly #limits: LaneLimits;
  readonly #lanes = new Map<string, EndpointLane>();
  readonly #normal: Group<J> = { waiting: new Lanes(), inFlight: 0, rowsInFlight: 0 };
  readonly #slow: Group<J> = { waiting: new Lanes(), inFlight: 0, rowsInFlight: 0 };

  constructor(limits: LaneLimits = LANE_LIMITS) {
    this.#limits = limits;
  }

  /** Rows of normal lanes in memory. */
  get normalRows(): number {
    return this.#normal.rowsInFlight + this.#normal.waiting.size;
  }

  /** Requests in flight. */
  get inFlight(): number {
    return this.#normal.inFlight + this.#slow.inFlight;
  }

  /** Adds a job at the end of its lane, or with `first` at its front; returns false if its lane is full. */
  admit(
    id: string,
    job: J,
    { first, maxBatch = 1 }: { first: boolean; maxBatch?: number } = { first: false },
  ): boolean {
    let lane = this.#lanes.get(id);
    if (lane) lane.maxBatch = maxBatch;
    if (lane && this.#sizeOf(lane) >= this.#windowOf(lane)) return false;
    if (!lane) {
      lane = { id, maxBatch, inFlight: 0, rowsInFlight: 0, slow: false };
      this.#lanes.set(id, lane);
    }
    this.#groupOf(lane).waiting.add(id, job, { first });
    return true;
  }

  /** Returns the next job that may start now and that the caller allows. Its request is in flight until ended(). */
  next(allows: (job: J) => boolean = () => true): { lane: EndpointLane; job: J } | undefined {
    const normal = this.#normal.inFlight < this.#limits.inFlight ? this.#nextOf(this.#normal, allows) : undefined;
    if (normal) return normal;
    return this.#slow.inFlight < this.#limits.slowInFlight ? this.#nextOf(this.#slow, allows) : undefined;
  }

  /** Takes the next job of the lane into a request that is in flight; undefined if there is none or the caller does not accept it. */
  join(lane: EndpointLane, accepts: (job: J) => boolean): J | undefined {
    const job = this.#groupOf(lane).waiting.nextOf(lane.id, accepts);
    if (job !== undefined) this.#countRows(lane, 1);
    return job;
  }

  /** Ends a request of `rows` jobs. */
  ended(lane: EndpointLane, slow: boolean, rows = 1): void {
    this.#countRows(lane, -rows);
    this.#count(lane, -1);
    this.#setSlow(lane, slow);
    const isForgotten = !lane.slow || this.#lanes.size > REMEMBERED;
    if (isForgotten && this.#sizeOf(lane) === 0) this.#lanes.delete(lane.id);
  }

  /** Marks the lane slow because an attempt has been running for long; returns the waiting jobs that no longer fit. */
  slowed(lane: EndpointLane): J[] {
    this.#setSlow(lane, true);
    const excess = this.#sizeOf(lane) - this.#windowOf(lane);
    return excess > 0 ? this.#slow.waiting.drain(lane.id, excess) : [];
  }

  evict(id: string): J[] {
    const lane = this.#lanes.get(id);
    return lane ? this.#groupOf(lane).waiting.drain(id) : [];
  }

  /** Returns the capacity of a lane, once half of its window is free; 0 before that. An unknown lane has its entire window. */
  resumable(id: string): number {
    const lane = this.#lanes.get(id);
    if (!lane) return this.#limits.window;
    const window = this.#windowOf(lane);
    const room = window - this.#sizeOf(lane);
    return room * 2 >= window ? room : 0;
  }

  #nextOf({ waiting }: Group<J>, allows: (job: J) => boolean): { lane: EndpointLane; job: J } | undefined {
    let id = '';
    const job = waiting.next((one, lane) => {
      id = lane;
      return allows(one);
    }, MAX_EXAMINED);
    if (job === undefined) return undefined;
    const lane = this.#lanes.get(id)!;
    this.#countRows(lane, 1);
    this.#count(lane, 1);
    return { lane, job };
  }

  #count(lane: EndpointLane, by: 1 | -1): void {
    const group = this.#groupOf(lane);
    lane.inFlight += by;
    group.inFlight += by;
    this.#holdIfFull(lane);
  }

  #countRows(lane: EndpointLane, by: number): void {
    lane.rowsInFlight += by;
    this.#groupOf(lane).rowsInFlight += by;
  }

  #setSlow(lane: EndpointLane, slow: boolean): void {
    if (lane.slow === slow) return;
    const from = this.#groupOf(lane);
    lane.slow = slow;
    const to = this.#groupOf(lane);
    from.inFlight -= lane.inFlight;
    to.inFlight += lane.inFlight;
    from.rowsInFlight -= lane.rowsInFlight;
    to.rowsInFlight += lane.rowsInFlight;
    for (const job of from.waiting.drain(lane.id)) to.waiting.add(lane.id, job);
    from.waiting.hold(lane.id, false);
    this.#holdIfFull(lane);
  }

  /** A lane with the maximum of requests in flight gets no turns. */
  #holdIfFull(lane: EndpointLane): void {
    const { perLane, perBatchLane, perSlowLane, slowInFlight } = this.#limits;
    const most = lane.maxBatch > 1 ? perBatchLane : perLane;
    const isNarrow = lane.slow && this.#slow.inFlight * 2 >= slowInFlight;
    this.#groupOf(lane).waiting.hold(lane.id, lane.inFlight >= (isNarrow ? perSlowLane : most));
  }

  #groupOf(lane: EndpointLane): Group<J> {
    return lane.slow ? this.#slow : this.#normal;
  }

  #sizeOf(lane: EndpointLane): number {
    return lane.rowsInFlight + this.#groupOf(lane).waiting.sizeOf(lane.id);
  }

  #windowOf(lane: EndpointLane): number {
    // A slow lane holds the rows of two full requests.
    return lane.slow ? Math.max(this.#limits.slowWindow, 2 * lane.maxBatch) : this.#limits.window;
  }
}

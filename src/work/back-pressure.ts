/**
 * Rows whose lane is over its quota are parked in the database, so that claims look past them, and resumed when the lane has
 * drained. Lanes with parked rows are known from here, and from the database: others park too (a replay, a process that died).
 */
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { FairQueue, Item } from './kind.ts';
import { parkedLanesOperation, resumeOperation } from './store.ts';

const PAGE = 1_000;
/** Rows of one claim for which a lane must have had no room, to be passed over by the next one. */
const MANY_ROWS = 64;

export interface BackPressureDeps<I extends Item> {
  kind: string;
  queue: FairQueue<I>;
  database: Database;
  log: Log;
  now(): number;
  /** How many items are in hand. */
  size(): number;
  /** Rows may be claimed again. */
  onResumed(): void;
}

export class BackPressure<I extends Item> {
  readonly #deps: BackPressureDeps<I>;
  readonly #parked = new Set<string>();
  /** Lanes that have drained, and wait for the next call. */
  readonly #drained = new Set<string>();
  /** Lanes of which rows were resumed that no claim has looked for yet: their room is spoken for. */
  #resumed = new Set<string>();
  #isResuming = false;
  #lastLane = '';
  #rowsOfClaim = new Map<string, number>();

  constructor(deps: BackPressureDeps<I>) {
    this.#deps = deps;
  }

  /** Whether rows of the lane are parked. */
  hasParked(lane: string): boolean {
    return this.#parked.has(lane);
  }

  /** A row of the lane is being parked. */
  parked(lane: string): void {
    this.#parked.add(lane);
    this.#rowsOfClaim.set(lane, (this.#rowsOfClaim.get(lane) ?? 0) + 1);
  }

  /** A claim has come: answers the lanes of which many rows were parked since the last call. */
  takeOverQuota(): string[] {
    const rows = this.#rowsOfClaim;
    this.#rowsOfClaim = new Map();
    this.#resumed.clear();
    return [...rows].flatMap(([lane, count]) => (count >= MANY_ROWS ? [lane] : []));
  }

  /** An item of the lane has left: its parked rows may come. */
  left(lane: string): void {
    if (!this.#parked.has(lane) || this.#resumed.has(lane)) return;
    if (this.#deps.queue.resumable([lane], this.#deps.size()).length === 0) return;
    this.#drained.add(lane);
    if (!this.#isResuming) void this.#resumeDrained();
  }

  /** Looks for parked rows in the database, and resumes those whose lane has room. Rejects when the storage refuses. */
  async sweep(): Promise<void> {
    // Each sweep goes on where the last one ended, so that every lane has its turn however many there are.
    const page = { kind: this.#deps.kind, after: this.#lastLane, limit: PAGE };
    const lanes = await this.#deps.database.execute(parkedLanesOperation, page);
    this.#lastLane = lanes.length < PAGE ? '' : lanes.at(-1)!;
    for (const lane of lanes) this.#parked.add(lane);
    await this.#resume(lanes);
  }

  async #resumeDrained(): Promise<void> {
    this.#isResuming = true;
    try {
      while (this.#drained.size > 0) {
        const lanes = [...this.#drained];
        this.#drained.clear();
        await this.#resume(lanes);
      }
    } catch (error) {
      this.#deps.log.warn({ error: (error as Error).message }, 'parked work not resumed; the next sweep retries');
    }
    this.#isResuming = false;
  }

  async #resume(lanes: readonly string[]): Promise<void> {
    const { kind, database, queue } = this.#deps;
    const grants = queue.resumable(lanes, this.#deps.size());
    if (grants.length === 0) return;
    const counts = await database.execute(resumeOperation, { kind, nowMs: this.#deps.now(), lanes: grants });
    for (const [index, { lane, limit }] of grants.entries()) {
      if (counts[index]! < limit) this.#parked.delete(lane);
      if (counts[index]! > 0) this.#resumed.add(lane);
    }
    if (counts.some((count) => count > 0)) this.#deps.onResumed();
  }
}

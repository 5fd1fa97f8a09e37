/**
 * Parks rows in the database whose lane is over its quota, so that claims skip them, and resumes them when the lane has drained. Lanes with
 * parked rows are known from this process and from the database, since others park too (a replay, a process that died).
 */
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { FairQueue, Item } from './kind.ts';
import { parkedLanesOperation, resumeOperation } from './store.ts';

const PAGE = 1_000;
/** Rows parked for one lane by one claim, from which on the next claim skips the lane. */
const MANY_ROWS = 64;

export interface BackPressureDeps<I extends Item> {
  kind: string;
  queue: FairQueue<I>;
  database: Database;
  log: Log;
  now(): number;
  /** How far back due rows are searched for (search-window.ts). */
  lookBackMs(): number | undefined;
  /** Number of items held. */
  size(): number;
  /** Rows may be claimed again. */
  onResumed(): void;
}

export class BackPressure<I extends Item> {
  readonly #deps: BackPressureDeps<I>;
  readonly #parked = new Set<string>();
  /** Lanes that have drained and wait for the next call. */
  readonly #drained = new Set<string>();
  /** Lanes with resumed rows that no claim has read yet: their capacity is reserved. */
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

  /** Records that a row of the lane is being parked. */
  parked(lane: string): void {
    this.#parked.add(lane);
    this.#rowsOfClaim.set(lane, (this.#rowsOfClaim.get(lane) ?? 0) + 1);
  }

  /** Call once per claim; returns the lanes for which many rows were parked since the last call. */
  takeOverQuota(): string[] {
    const rows = this.#rowsOfClaim;
    this.#rowsOfClaim = new Map();
    this.#resumed.clear();
    return [...rows].flatMap(([lane, count]) => (count >= MANY_ROWS ? [lane] : []));
  }

  /** Records that an item of the lane has left, so its parked rows may return. */
  left(lane: string): void {
    if (!this.#parked.has(lane) || this.#resumed.has(lane)) return;
    if (this.#deps.queue.resumable([lane], this.#deps.size()).length === 0) return;
    this.#drained.add(lane);
    if (!this.#isResuming) void this.#resumeDrained();
  }

  /** Reads parked rows from the database, and resumes those whose lane has capacity. Rejects if the storage fails. */
  async sweep(): Promise<void> {
    // Each sweep continues after the last one, so that every lane has its turn, however many there are.
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
    const counts = await database.execute(resumeOperation, {
      kind,
      nowMs: this.#deps.now(),
      lookBackMs: this.#deps.lookBackMs(),
      lanes: grants,
    });
    for (const [index, { lane, limit }] of grants.entries()) {
      if (counts[index]! < limit) this.#parked.delete(lane);
      if (counts[index]! > 0) this.#resumed.add(lane);
    }
    if (counts.some((count) => count > 0)) this.#deps.onResumed();
  }
}

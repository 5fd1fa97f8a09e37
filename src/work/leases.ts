/**
 * The leases on what this process has in hand: kept while it waits, runs, or its result is being recorded. Always true:
 *
 * - No row in hand is claimed as if it were somebody else's, wherever the clock was set and however long the process stood
 *   still: before a claim, leases that may have run out are extended; a row that comes back all the same is the same item
 *   under its new fence.
 * - A lease that was lost while its item waited ends the item here: the process that took the row over tries it. One that was lost
 *   during an attempt no longer holds(): nothing irrevocable is begun then.
 */
import type { Clock } from '../base/clock.ts';
import type { Database, DatabaseState } from '../storage/database.ts';
import type { Item } from './kind.ts';
import { extendOperation } from './store.ts';

/** How long a claim, or a job that was handed over directly, lasts without being extended. */
export const LEASE_MS = 60_000;
/** Extended when less than this is left; with a tick each second that is every 15 s. */
const EXTEND_BELOW_MS = 45_000;
/** No attempt begins with less than this left. */
const MARGIN_MS = 5_000;
/** More than a lease is left when the clock was set back by more than this. */
const SLACK_MS = 1_000;
const EXTEND_BATCH = 500;

export class Leases<I extends Item> {
  readonly #items = new Map<number, I>();
  readonly #database: Database;
  readonly #clock: Clock;
  #extending: Promise<I[]> | undefined;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  get size(): number {
    return this.#items.size;
  }

  get(seq: number): I | undefined {
    return this.#items.get(seq);
  }

  values(): Iterable<I> {
    return this.#items.values();
  }

  take(item: I): void {
    this.#items.set(item.job.seq, item);
  }

  drop(item: I): void {
    this.#items.delete(item.job.seq);
  }

  /** Whether the lease is good for an attempt. */
  holds(item: I): boolean {
    return item.leaseUntilMs > this.#clock.now() + MARGIN_MS;
  }

  /** Whether one of them is so short that a claim could take its row. */
  mayHaveEnded(): boolean {
    const least = this.#clock.now() + MARGIN_MS;
    for (const { leaseUntilMs } of this.#items.values()) if (leaseUntilMs <= least) return true;
    return false;
  }

  /** Extends what runs short; answers items that waited and were lost. Rejects when the storage refuses. */
  extend(): Promise<I[]> {
    this.#extending ??= this.#extend().finally(() => {
      this.#extending = undefined;
    });
    return this.#extending;
  }

  async #extend(): Promise<I[]> {
    const nowMs = this.#clock.now();
    const due = [...this.#items.values()].filter(({ leaseUntilMs }) => {
      const leftMs = leaseUntilMs - nowMs;
      return leftMs < EXTEND_BELOW_MS || leftMs > LEASE_MS + SLACK_MS;
    });
    const gone: I[] = [];
    for (let from = 0; from < due.length; from += EXTEND_BATCH) {
      const batch = due.slice(from, from + EXTEND_BATCH);
      const leases = batch.map(({ job }) => ({ seq: job.seq, fence: job.fence }));
      const request = { leases, nowMs, leaseMs: LEASE_MS };
      const lost = new Set(await this.#database.execute(extendOperation, request));
      for (const [index, item] of batch.entries()) {
        if (!lost.has(item.job.seq)) item.leaseUntilMs = nowMs + LEASE_MS;
        // It came back under a new fence meanwhile.
        else if (item.job.fence !== leases[index]!.fence) continue;
        else if (item.state === 'waiting') gone.push(item);
        // If the row comes back to this process, the result is recorded then.
        else item.leaseUntilMs = 0;
      }
    }
    return gone;
  }
}

/** Longer than a node takes to notice that the database is back, and to write down what it holds. */
const TAKE_OVER_AFTER_MS = 10_000;

/** Whether only rows that nobody holds may be claimed: for `Claim.freeOnly`. */
export function isFreeOnly({ readyForMs }: DatabaseState): boolean {
  return readyForMs !== undefined && readyForMs < TAKE_OVER_AFTER_MS;
}

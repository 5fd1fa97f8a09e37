/**
 * The leases on the items that this process holds: kept while an item waits, runs, or has a result that is not recorded. Invariants:
 *
 * - No held row is claimed as another node's, however the clock was set and however long the process was stopped: before a claim, leases
 *   that may have expired are extended; if a row is claimed again anyway, it is the same item under its new fence.
 * - If a lease is lost while its item waits, the item is dropped: the process that took the row over runs it. After a loss during an
 *   attempt, holds() returns false, so nothing irrevocable starts.
 */
import type { Clock } from '../base/clock.ts';
import type { Database, DatabaseState } from '../storage/database.ts';
import type { Item } from './kind.ts';
import { extendOperation } from './store.ts';

/** Duration of a claim, or of a directly dispatched job, without extension. */
export const LEASE_MS = 60_000;
/** Leases are extended when less than this is left: with one tick per second, every 15 s. */
const EXTEND_BELOW_MS = 45_000;
/** No attempt starts with less than this left. */
const MARGIN_MS = 5_000;
/** If more than a lease plus this is left, the clock was set back. */
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

  /** Whether the lease is long enough for an attempt. */
  holds(item: I): boolean {
    return item.leaseUntilMs > this.#clock.now() + MARGIN_MS;
  }

  /** Whether a lease is so short that a claim could take its row. */
  mayHaveEnded(): boolean {
    const least = this.#clock.now() + MARGIN_MS;
    for (const { leaseUntilMs } of this.#items.values()) if (leaseUntilMs <= least) return true;
    return false;
  }

  /** Extends leases that run short; returns waiting items whose lease was lost. Rejects if the storage fails. */
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
        // The row was claimed under a new fence in the meantime.
        else if (item.job.fence !== leases[index]!.fence) continue;
        else if (item.state === 'waiting') gone.push(item);
        // If the row returns to this process, the result is recorded then.
        else item.leaseUntilMs = 0;
      }
    }
    return gone;
  }
}

/** Longer than a node needs to notice that the database is back and to record its results. */
const TAKE_OVER_AFTER_MS = 10_000;

/** Whether only unleased rows may be claimed: for `Claim.freeOnly`. */
export function isFreeOnly({ readyForMs }: DatabaseState): boolean {
  return readyForMs !== undefined && readyForMs < TAKE_OVER_AFTER_MS;
}

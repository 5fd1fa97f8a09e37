/**
 * Runs rows that are selected instead of claimed when due: those of a sandbox whose clock is moved, or whose outcome is set manually.
 * The steps are those of the engine (claim → run → settle), each row at the time that the caller gives. There is no queue, and the
 * caller gives failed rows back. Rows in quarantine must not be among them: crashes are not watched here.
 */
import { type Item, type Steps, untriedResult } from './kind.ts';
import type { Lease } from './store.ts';

/** A kind of work whose rows can be run individually at any time. */
export interface ChosenKind<I extends Item = Item, R extends Lease = Lease> extends Steps<I, R> {
  attempt(item: I): R | Promise<R>;
}

export interface ChosenRow extends Lease {
  /** Unix ms by the clock of its mode at which the row runs; now by default. */
  atMs?: number;
}

/** Leases the rows that are free; returns them in the given order. */
export async function claimChosen<I extends Item>(
  kind: Pick<ChosenKind<I>, 'claim'>,
  rows: readonly ChosenRow[],
  lease: { nowMs: number; leaseMs: number },
): Promise<I[]> {
  const only = rows.map(({ seq, fence }) => ({ seq, fence }));
  const { items } = await kind.claim({ ...lease, limit: rows.length, quarantined: false, overQuota: [], only });
  const bySeq = new Map(items.map((item) => [item.job.seq, item]));
  return rows.flatMap(({ seq, atMs }) => {
    const item = bySeq.get(seq);
    if (item && atMs !== undefined) item.atMs = atMs;
    return item ? [item] : [];
  });
}

/**
 * Runs items together and records their results; returns the number recorded. Rejects if an item fails because of a bug, or if the storage
 * fails.
 */
export async function runChosen<I extends Item, R extends Lease>(
  kind: ChosenKind<I, R>,
  items: readonly I[],
): Promise<number> {
  if (items.length === 0) return 0;
  const results = await Promise.all(items.map((item) => untriedResult(kind, item) ?? kind.attempt(item)));
  const lost = await kind.record(results);
  return results.length - lost.length;
}

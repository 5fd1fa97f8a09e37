/**
 * Rows that are chosen instead of claimed as they come due: those of a sandbox, whose clock is moved or of which an outcome is
 * played by hand. The steps are those of the engine (claim → run → settle), each row at the time that the caller gives it; there is no
 * queue, and what fails is given back by the caller. No row in quarantine is to be among them: nobody watches for crashes here.
 */
import { type Item, type Steps, untriedResult } from './kind.ts';
import type { Lease } from './store.ts';

/** A kind of work of which single rows can be tried at any time. */
export interface ChosenKind<I extends Item = Item, R extends Lease = Lease> extends Steps<I, R> {
  attempt(item: I): R | Promise<R>;
}

export interface ChosenRow extends Lease {
  /** Unix ms by the clock of its mode: when it happens. The present moment unless given. */
  atMs?: number;
}

/** Leases those of the rows that are free; answers them in the order given. */
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

/** Runs items together and records what came of them; answers of how many. Rejects when one fails in our own code, or the storage refuses. */
export async function runChosen<I extends Item, R extends Lease>(
  kind: ChosenKind<I, R>,
  items: readonly I[],
): Promise<number> {
  if (items.length === 0) return 0;
  const results = await Promise.all(items.map((item) => untriedResult(kind, item) ?? kind.attempt(item)));
  const lost = await kind.record(results);
  return results.length - lost.length;
}

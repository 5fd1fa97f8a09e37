/**
 * When a node may take rows whose lease has ended. A database that was away for longer than a lease has let all leases end,
 * though their holders live and may hold results: the node that finds it back first must not take the work of the others before
 * they had their turn.
 */
import type { DatabaseState } from '../storage/database.ts';

/** Longer than a node takes to notice that the database is back, and to write down what it holds. */
const TAKE_OVER_AFTER_MS = 10_000;

/** Whether only rows that nobody holds may be claimed: for `Claim.freeOnly`. */
export function isFreeOnly({ readyForMs }: DatabaseState): boolean {
  return readyForMs !== undefined && readyForMs < TAKE_OVER_AFTER_MS;
}

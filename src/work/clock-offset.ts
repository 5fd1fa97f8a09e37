/**
 * The clock of an account's sandbox: the real time and what it was moved ahead. Messages and events of the sandbox carry its
 * time; the rows of their work are due in real time, so that claims are the same for everybody, and come nearer when the clock
 * is moved. A caller that makes such a row due by that clock converts the time in its own transaction, with the functions here:
 * otherwise a move in between would leave the row behind.
 */
import type { Mode } from '../base/mode.ts';
import { shared, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';

export interface Owner {
  accountId: string;
  mode: Mode;
}

/**
 * Milliseconds that the clock of each owner is ahead of the real time, 0 in live mode, as a function of the owner. The clocks are
 * not moved before this transaction, which writes, ends.
 */
export async function clockOffsets(tx: Transaction, owners: readonly Owner[]): Promise<(owner: Owner) => number> {
  const ids = new Set(owners.flatMap((one) => (one.mode === 'sandbox' ? [one.accountId] : [])));
  if (ids.size === 0) return () => 0;
  const asked = rowset(
    tx,
    'asked',
    { accountId: 'text' },
    [...ids].map((accountId) => ({ accountId })),
  );
  const rows = await tx.all<{ account_id: string; ahead_ms: number }>(
    `SELECT account_id, ahead_ms FROM sandbox_clock WHERE account_id IN (SELECT asked.account_id FROM ${asked.sql})
     ORDER BY account_id ${shared(tx)}`,
    ...asked.params,
  );
  const offsets = new Map(rows.map((row) => [row.account_id, row.ahead_ms]));
  return ({ accountId, mode }) => (mode === 'live' ? 0 : (offsets.get(accountId) ?? 0));
}

/** The same of one owner. */
export async function clockOffsetOf(tx: Transaction, owner: Owner): Promise<number> {
  return (await clockOffsets(tx, [owner]))(owner);
}

/** The same within a statement, of rows that have an account and a mode; it locks nothing. */
export function clockOffsetSql(row: string): string {
  return `CASE WHEN ${row}.mode = 'sandbox' THEN coalesce(
    (SELECT ahead_ms FROM sandbox_clock WHERE sandbox_clock.account_id = ${row}.account_id), 0) ELSE 0 END`;
}

/** Moves the clock, and with it what waits: rows in somebody's hands are converted when they are put back. */
export async function moveClock(tx: Transaction, accountId: string, byMs: number): Promise<void> {
  if (byMs <= 0) return;
  await tx.run('UPDATE sandbox_clock SET ahead_ms = ahead_ms + ? WHERE account_id = ?', byMs, accountId);
  await tx.run(
    "UPDATE work SET due = due - ? WHERE account_id = ? AND mode = 'sandbox' AND leased = 0",
    byMs,
    accountId,
  );
}

/** Ends moves that a process which is dead has begun. */
export async function freeClocks(tx: Transaction): Promise<void> {
  await tx.run('UPDATE sandbox_clock SET moved_by = NULL, moving_until = 0 WHERE moved_by IS NOT NULL');
}

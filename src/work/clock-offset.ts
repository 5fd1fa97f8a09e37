/**
 * The clock of an account's sandbox: the real time and what it was moved ahead. Messages and events of the sandbox carry its
 * time; the rows of their work are due in real time, so that claims are the same for everybody, and come nearer when the clock
 * is moved. Whoever makes such a row due by that clock converts the time in its own transaction, with the functions here:
 * otherwise a move in between would leave the row behind.
 */
import type { Mode } from '../base/mode.ts';
import type { EmbeddedTransaction, Transaction } from '../storage/operation.ts';
import { textArray } from '../storage/postgres-arrays.ts';

export interface Owner {
  accountId: string;
  mode: Mode;
}

const AHEAD = 'SELECT ahead_ms FROM sandbox_clock WHERE account_id = ?';

/** Milliseconds that the owner's clock is ahead of the real time; 0 in live mode. */
export async function clockOffsetOf(tx: Transaction, { accountId, mode }: Owner): Promise<number> {
  if (mode === 'live') return 0;
  const row = await tx.get<{ ahead_ms: number }>(AHEAD, accountId);
  return row?.ahead_ms ?? 0;
}

export function embeddedClockOffsetOf(tx: EmbeddedTransaction, { accountId, mode }: Owner): number {
  if (mode === 'live') return 0;
  return tx.get<{ ahead_ms: number }>(AHEAD, accountId)?.ahead_ms ?? 0;
}

/** The same, and the clock is not moved before this transaction ends. */
export async function lockedClockOffsetOf(tx: Transaction, owner: Owner): Promise<number> {
  if (owner.mode === 'live' || tx.dialect === 'sqlite') return clockOffsetOf(tx, owner);
  return (await lockedClockOffsetsOf(tx, [owner]))(owner);
}

/** For many owners of a shared database at once: answers a function of the owner. */
export async function lockedClockOffsetsOf(
  tx: Transaction,
  owners: readonly Owner[],
): Promise<(owner: Owner) => number> {
  const ids = [...new Set(owners.flatMap((one) => (one.mode === 'sandbox' ? [one.accountId] : [])))];
  if (ids.length === 0) return () => 0;
  const rows = await tx.all<{ account_id: string; ahead_ms: number }>(
    'SELECT account_id, ahead_ms FROM sandbox_clock WHERE account_id = ANY (CAST(? AS TEXT[])) ORDER BY account_id FOR SHARE',
    textArray(ids),
  );
  const clockOffsets = new Map(rows.map((row) => [row.account_id, row.ahead_ms]));
  return ({ accountId, mode }) => (mode === 'live' ? 0 : (clockOffsets.get(accountId) ?? 0));
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

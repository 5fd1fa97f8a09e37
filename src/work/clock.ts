/**
 * The clocks that work follows. The clock of an account's sandbox is the real time plus an offset: messages and events of the sandbox carry
 * its time; their work rows are due in real time, so that claims are the same for all, and become due earlier when the clock is moved. A
 * caller that schedules such a row by the sandbox clock converts the time in its own transaction, with the functions here: otherwise a move
 * in between would miss the row.
 *
 * The wall clock may be set, which is detected by comparison with the monotonic clock. If it was set back, deferred work would wait for
 * that much longer: it is moved to within one step of its schedule. The same is done at every start, because the clock may have been set
 * while no process ran. Leases need no correction: those that look too short or too long are extended anyway.
 */

import { type Clock, JUMP_MS, watchJumps } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Mode } from '../base/mode.ts';
import { shared, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { HELD } from './enqueue.ts';

export interface Owner {
  accountId: string;
  mode: Mode;
}

/**
 * Returns by how many milliseconds the clock of each owner is ahead of the real time, 0 in live mode, as a function of the owner. The
 * clocks cannot move before this write transaction ends.
 */
export async function clockOffsets(tx: Transaction, owners: readonly Owner[]): Promise<(owner: Owner) => number> {
  const ids = new Set(owners.flatMap((one) => (one.mode === 'sandbox' ? [one.accountId] : [])));
  if (ids.size === 0) return () => 0;
  const requested = rowset(
    tx,
    'requested',
    { accountId: 'text' },
    [...ids].map((accountId) => ({ accountId })),
  );
  const rows = await tx.all<{ account_id: string; ahead_ms: number }>(
    `SELECT account_id, ahead_ms FROM sandbox_clock WHERE account_id IN (SELECT requested.account_id FROM ${requested.sql})
     ORDER BY account_id ${shared(tx)}`,
    ...requested.params,
  );
  const offsets = new Map(rows.map((row) => [row.account_id, row.ahead_ms]));
  return ({ accountId, mode }) => (mode === 'live' ? 0 : (offsets.get(accountId) ?? 0));
}

export async function clockOffsetOf(tx: Transaction, owner: Owner): Promise<number> {
  return (await clockOffsets(tx, [owner]))(owner);
}

/** Returns the offset as SQL, for rows with an account and a mode; without a lock. */
export function clockOffsetSql(row: string): string {
  return `CASE WHEN ${row}.mode = 'sandbox' THEN coalesce(
    (SELECT ahead_ms FROM sandbox_clock WHERE sandbox_clock.account_id = ${row}.account_id), 0) ELSE 0 END`;
}

/** Moves the clock, and the waiting rows with it: leased rows are converted when they are put back. */
export async function moveClock(tx: Transaction, accountId: string, byMs: number): Promise<void> {
  if (byMs <= 0) return;
  await tx.run('UPDATE sandbox_clock SET ahead_ms = ahead_ms + ? WHERE account_id = ?', byMs, accountId);
  await tx.run(
    "UPDATE work SET due = due - ? WHERE account_id = ? AND mode = 'sandbox' AND leased = 0",
    byMs,
    accountId,
  );
}

/** Ends clock moves of a process that died. */
export async function freeClocks(tx: Transaction): Promise<void> {
  await tx.run('UPDATE sandbox_clock SET moved_by = NULL, moving_until = 0 WHERE moved_by IS NOT NULL');
}

/** A free row of an account's sandbox. */
export interface SandboxRow {
  seq: number;
  fence: number;
  kind: string;
  subject: string;
  attempts: number;
  /** Unix ms, real time. */
  due: number;
}

export interface SandboxRows {
  accountId: string;
  kinds: readonly [string, string];
  /** Unix ms, real time, inclusive. */
  untilMs: number;
  limit: number;
}

/** Returns the sandbox rows due by then, the earliest first, including parked rows, excluding those held back or in quarantine. */
export function freeSandboxRows(tx: Transaction, rows: SandboxRows): Promise<SandboxRow[]> | SandboxRow[] {
  return tx.all<SandboxRow>(
    `SELECT seq, fence, kind, subject, attempts, due FROM work
     WHERE account_id = ? AND mode = 'sandbox' AND leased = 0 AND held < ${HELD.behind} AND due <= ? AND kind IN (?, ?)
       AND crashes < 2 ORDER BY due, seq LIMIT ?`,
    rows.accountId,
    rows.untilMs,
    ...rows.kinds,
    rows.limit,
  );
}

/** Returns how many rows of the account's sandbox are leased, and how many are free and due. */
export async function outstandingWorkOf(
  tx: Transaction,
  { accountId, kinds, untilMs }: Omit<SandboxRows, 'limit'>,
): Promise<{ held: number; due: number }> {
  const row = await tx.get<{ held: number; due: number }>(
    `SELECT coalesce(sum(CASE WHEN leased > 0 THEN 1 ELSE 0 END), 0) AS held,
       coalesce(sum(CASE WHEN leased = 0 AND held < ${HELD.behind} AND due <= ? THEN 1 ELSE 0 END), 0) AS due
     FROM work WHERE account_id = ? AND mode = 'sandbox' AND kind IN (?, ?) AND crashes < 2`,
    untilMs,
    accountId,
    ...kinds,
  );
  return row!;
}

export interface ClampDue {
  nowMs: number;
  /** Index n - 1: the longest wait after attempt n, in ms; the last value applies to all later attempts. */
  latestMs: readonly number[];
  /** The longest wait of a row after a crash. */
  crashPauseMs: number;
  /** The clock was set back while this process ran. */
  isSetBack?: boolean;
}

export interface ClampKind {
  kind: string;
  /** SQL: Unix ms before which an untried row cannot be due, or NULL to leave it unchanged. */
  notBefore: string;
}

/** Brings forward rows that are due later than any schedule allows; returns their number. */
export async function clampDue(
  tx: Transaction,
  { kind, notBefore }: ClampKind,
  { nowMs, latestMs, crashPauseMs }: ClampDue,
): Promise<number> {
  let changed = 0;
  for (const [index, waitMs] of latestMs.entries()) {
    const last = index === latestMs.length - 1;
    changed += await tx.run(
      `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND due > ? AND leased = 0
         AND attempts ${last ? '>=' : '='} ? AND attempts > 0`,
      nowMs + waitMs,
      kind,
      nowMs + waitMs,
      index + 1,
    );
  }
  // Untried rows: due at their creation, or at the time a user asked for; after a crash a little later.
  changed += await tx.run(
    `UPDATE work SET due = CASE WHEN ${notBefore} > CAST(? AS BIGINT) THEN ${notBefore} ELSE CAST(? AS BIGINT) END
     WHERE kind = ? AND held = 0 AND leased = 0 AND attempts = 0 AND due > ?
       AND due > CASE WHEN crashes > 0 THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END AND ${notBefore} < due`,
    nowMs,
    nowMs,
    kind,
    nowMs,
    nowMs + crashPauseMs,
    nowMs,
  );
  return changed;
}

export interface ClockWatchDeps {
  clock: Clock;
  log: Log;
  kind: string;
  /** Repairs the schedule; returns how many rows were due too late. */
  repair(options: { isSetBack: boolean }): Promise<number>;
}

/** Returns a function to call every second; it rejects if the storage fails, and repairs with the next call. */
export function watchClock({ clock, log, kind, repair }: ClockWatchDeps): () => Promise<void> {
  const jumpOf = watchJumps(clock);
  let isRepaired = false;
  let isSetBack = false;
  return async () => {
    const jumpMs = jumpOf();
    if (Math.abs(jumpMs) > JUMP_MS) log.warn({ jumpMs: Math.round(jumpMs) }, 'system clock jumped');
    if (jumpMs < -JUMP_MS) {
      isSetBack = true;
      isRepaired = false;
    }
    if (isRepaired) return;
    const rows = await repair({ isSetBack });
    if (rows > 0) log.warn({ kind, rows }, 'work due later than its schedule allows; rescheduled');
    isRepaired = true;
    isSetBack = false;
  };
}

/**
 * The transactions that move the clock of an account's sandbox. One call at a time moves it, under a lease. It takes due work step by step,
 * in order; the stored clock lags behind, so that work a step makes due is left to the next step and not to workers. At the end the clock
 * is at the target, and no earlier work is left.
 */

import { locked, operation, type Transaction } from '../storage/operation.ts';
import {
  clockOffsetOf,
  freeSandboxRows,
  moveClock,
  outstandingWorkOf,
  release,
  type SandboxRow,
} from '../work/work.ts';
import { INBOX_MS } from './store.ts';

/** Maximum lag of the stored clock behind the move. */
const FOLLOWS_AFTER_MS = 3_600_000;
/** Minimum lag: longer than work that a step makes due waits for the next step. */
const STAYS_BEHIND_MS = 120_000;

export const clockOffsetOperation = operation('sandbox.clockOffset', 'read', async (tx, accountId: string) => {
  const row = await tx.get<{ ahead_ms: number }>('SELECT ahead_ms FROM sandbox_clock WHERE account_id = ?', accountId);
  return row?.ahead_ms ?? 0;
});

export interface MoveLease {
  accountId: string;
  /** Identifies the call that moves the clock. */
  by: string;
  /** Unix ms, real time. */
  nowMs: number;
  leaseMs: number;
}

/** Begins a move; returns false while another one is in progress. */
export const beginMoveOperation = operation(
  'sandbox.beginMove',
  'write',
  async (tx, lease: MoveLease): Promise<boolean> => {
    await tx.run(
      'INSERT INTO sandbox_clock (account_id, ahead_ms, moved_by, moving_until) VALUES (?, 0, NULL, 0) ON CONFLICT DO NOTHING',
      lease.accountId,
    );
    const begun = await tx.run(
      `UPDATE sandbox_clock SET moved_by = ?, moving_until = ?
     WHERE account_id = ? AND (moved_by IS NULL OR moving_until <= ?)`,
      lease.by,
      lease.nowMs + lease.leaseMs,
      lease.accountId,
      lease.nowMs,
    );
    return begun === 1;
  },
);

/** Returns the unfinished work of the account's sandbox before anything is moved. */
export const outstandingWorkOperation = operation(
  'sandbox.outstandingWork',
  'read',
  (tx, now: { accountId: string; kinds: readonly [string, string]; untilMs: number }) => outstandingWorkOf(tx, now),
);

export interface Step extends MoveLease {
  kinds: readonly [delivery: string, webhook: string];
  /** Unix ms by the account's clock; work due until then is taken. */
  targetMs: number;
  /** Where the previous step ended; nothing happens before it. */
  momentMs: number;
  /** Maximum number of rows of each kind. */
  most: readonly [delivery: number, webhook: number];
  /** For each kind, by number of attempts made: the minimum time until the work can be due again. */
  shortestWaitsMs: readonly [delivery: readonly number[], webhook: readonly number[]];
}

export interface DueRow extends SandboxRow {
  /** Unix ms by the account's clock at which it happens. */
  atMs: number;
}

/** Returns what can happen together next. Undefined if the lease of the move is lost. No rows: nothing is due until the target. */
export const nextStepOperation = operation(
  'sandbox.nextStep',
  'write',
  async (tx, step: Step): Promise<DueRow[] | undefined> => {
    const clock = await tx.get<{ ahead_ms: number }>(
      'UPDATE sandbox_clock SET moving_until = ? WHERE account_id = ? AND moved_by = ? RETURNING ahead_ms',
      step.nowMs + step.leaseMs,
      step.accountId,
      step.by,
    );
    if (!clock) return undefined;
    const { accountId, kinds } = step;
    const limit = Math.max(...step.most);
    const untilMs = step.targetMs - clock.ahead_ms;
    const free = await freeSandboxRows(tx, { accountId, kinds, untilMs, limit });
    const atOf = (row: SandboxRow): number => Math.max(row.due + clock.ahead_ms, step.momentMs);
    const [first] = free;
    // Everything due before the first row has happened.
    if (first && atOf(first) > step.momentMs) await follow(tx, step, clock.ahead_ms);
    const rows = free.map((row) => ({ ...row, atMs: atOf(row) }));
    return untilOneIsDueAgain(tx, step, rows);
  },
);

async function follow(tx: Transaction, { accountId, nowMs, momentMs }: Step, clockOffsetMs: number): Promise<void> {
  const behindMs = momentMs - (nowMs + clockOffsetMs);
  if (behindMs > FOLLOWS_AFTER_MS) await moveClock(tx, accountId, behindMs - STAYS_BEHIND_MS);
}

/**
 * Returns the rows that can run together because none of them makes something due in between: a deferred attempt is due again after its
 * wait or at the end of its lifetime; with subscribed endpoints, its event is due immediately.
 */
async function untilOneIsDueAgain(tx: Transaction, step: Step, rows: DueRow[]): Promise<DueRow[]> {
  const [deliveryWaits, webhookWaits] = step.shortestWaitsMs;
  const listened = await tx.get(
    "SELECT 1 AS found FROM webhook_subscription WHERE account_id = ? AND mode = 'sandbox' LIMIT 1",
    step.accountId,
  );
  const ends = listened ? new Map<string, number>() : await endsOf(tx, step, rows);
  const waitOf = (row: DueRow): number => {
    if (row.kind !== step.kinds[0]) return webhookWaits[row.attempts] ?? Number.POSITIVE_INFINITY;
    if (listened) return 0;
    const leftMs = (ends.get(row.subject) ?? Number.POSITIVE_INFINITY) - row.atMs;
    return leftMs <= 0
      ? Number.POSITIVE_INFINITY
      : Math.min(deliveryWaits[row.attempts] ?? deliveryWaits.at(-1)!, leftMs);
  };
  const chosen: DueRow[] = [];
  let horizonMs = Number.POSITIVE_INFINITY;
  const left = new Map(step.kinds.map((kind, index) => [kind, step.most[index]!]));
  for (const row of rows) {
    const room = left.get(row.kind) ?? 0;
    if (row.atMs > horizonMs || room === 0) break;
    left.set(row.kind, room - 1);
    chosen.push(row);
    horizonMs = Math.min(horizonMs, row.atMs + waitOf(row));
  }
  return chosen;
}

/** Returns when the lifetimes of messages end, by id. */
async function endsOf(tx: Transaction, step: Step, rows: readonly DueRow[]): Promise<Map<string, number>> {
  const ids: (string | null)[] = rows.flatMap((row) => (row.kind === step.kinds[0] ? [row.subject] : []));
  if (ids.length === 0) return new Map();
  // One statement text, so that it stays prepared.
  while (ids.length < step.most[0]) ids.push(null);
  const found = await tx.all<{ id: string; expires_at: number }>(
    `SELECT id, expires_at FROM message WHERE account_id = ? AND mode = 'sandbox' AND id IN (?${', ?'.repeat(ids.length - 1)})`,
    step.accountId,
    ...ids,
  );
  return new Map(found.map((row) => [row.id, row.expires_at]));
}

export interface MoveEnd extends Pick<MoveLease, 'accountId' | 'by' | 'nowMs'> {
  /** Unix ms by the account's clock. */
  toMs: number;
  /** Rows that were claimed and not run; they keep their due times. */
  released: Pick<DueRow, 'seq' | 'fence' | 'atMs'>[];
}

/** Sets the clock to its new time and removes what is too old for the inbox. Returns the time by that clock. */
export const endMoveOperation = operation('sandbox.endMove', 'write', async (tx, end: MoveEnd): Promise<number> => {
  const clockOffsetMs = await clockOffsetOf(tx, { accountId: end.accountId, mode: 'sandbox' });
  for (const { seq, fence, atMs } of end.released) await release(tx, [{ seq, fence }], atMs - clockOffsetMs);
  const row = await tx.get<{ ahead_ms: number }>(
    `SELECT ahead_ms FROM sandbox_clock WHERE account_id = ? AND moved_by = ? ${locked(tx)}`,
    end.accountId,
    end.by,
  );
  if (!row) return end.nowMs + clockOffsetMs;
  const nowMs = end.nowMs + row.ahead_ms;
  await moveClock(tx, end.accountId, end.toMs - nowMs);
  await tx.run('UPDATE sandbox_clock SET moved_by = NULL, moving_until = 0 WHERE account_id = ?', end.accountId);
  const endsMs = Math.max(end.toMs, nowMs);
  await tx.run('DELETE FROM sandbox_item WHERE account_id = ? AND created_at <= ?', end.accountId, endsMs - INBOX_MS);
  return endsMs;
});

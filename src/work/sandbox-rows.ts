/**
 * The work of one account's sandbox, in the order in which it is due: for the call that moves the account's clock and runs what
 * comes due on the way. Rows that somebody holds are left to him, and so are rows in quarantine.
 */
import { presentTime, skipLocked, type Transaction } from '../storage/operation.ts';
import { HELD } from './lease-states.ts';
import { CLAIMED, type Lease, type Work } from './rows.ts';

export interface SandboxRow extends Work {
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

/** Free rows that are due until then, the first due first; parked rows are among them. */
export function freeSandboxRows(tx: Transaction, rows: SandboxRows): Promise<SandboxRow[]> | SandboxRow[] {
  return tx.all<SandboxRow>(
    `SELECT ${CLAIMED}, due FROM work
     WHERE account_id = ? AND mode = 'sandbox' AND leased = 0 AND due <= ? AND kind IN (?, ?) AND crashes < 2
     ORDER BY due, seq LIMIT ? ${skipLocked(tx)}`,
    rows.accountId,
    rows.untilMs,
    ...rows.kinds,
    rows.limit,
  );
}

export interface OutstandingWork {
  /** Rows in somebody's hands. */
  held: number;
  /** Free rows that are due. */
  due: number;
}

/** What of the account's sandbox is under way, or should be. */
export async function outstandingWorkOf(
  tx: Transaction,
  { accountId, kinds, untilMs }: Omit<SandboxRows, 'limit'>,
): Promise<OutstandingWork> {
  const row = await tx.get<OutstandingWork>(
    `SELECT coalesce(sum(CASE WHEN leased > 0 THEN 1 ELSE 0 END), 0) AS held,
       coalesce(sum(CASE WHEN leased = 0 AND due <= ? THEN 1 ELSE 0 END), 0) AS due
     FROM work WHERE account_id = ? AND mode = 'sandbox' AND kind IN (?, ?) AND crashes < 2`,
    untilMs,
    accountId,
    ...kinds,
  );
  return row as OutstandingWork;
}

/** Leases a row that is free; answers it as it is then, or undefined when somebody else has it. */
export async function take(
  tx: Transaction,
  lease: Lease,
  { nowMs, leaseMs }: { nowMs: number; leaseMs: number },
): Promise<Work | undefined> {
  const now = presentTime(tx, nowMs);
  return tx.get<Work>(
    `UPDATE work SET leased = ${HELD}, held = 0, fence = fence + 1, due = ${now.sql} + CAST(? AS BIGINT)
     WHERE seq = ? AND fence = ? AND leased = 0 RETURNING ${CLAIMED}`,
    ...[...now.params, leaseMs, lease.seq, lease.fence],
  );
}

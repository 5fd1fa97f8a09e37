/**
 * New rows of work: one, or many at once, in the way of each database.
 */
import type { Mode } from '../base/mode.ts';
import { insertRows, rowsOf } from '../storage/insert-rows.ts';
import type { EmbeddedTransaction, SqlValue, Transaction } from '../storage/operation.ts';
import { bigintArray, textArray } from '../storage/postgres-arrays.ts';
import { FREE, HELD } from './lease-states.ts';

export interface NewWork {
  kind: string;
  accountId: string;
  mode: Mode;
  /** What the work is about: an id of the kind's own. */
  subject: string;
  /** A number of the kind's own. */
  ref: number;
  /** Rows of one lane wait behind each other; lanes do not. */
  lane: string;
  /** Unix ms. */
  dueMs: number;
  /** Length of the lease, from `dueMs` on, of a row that the transaction that makes it hands to its worker, without a claim. */
  leaseMs: number | null;
}

/** The fence of a row that was leased at its making. */
export const FIRST_FENCE = 1;

/** Columns of a new row, in this order; `seq` stands in front of them where the number is known. */
export const NEW_WORK = 'kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held';

export function enqueue(tx: Transaction, work: NewWork): Promise<number> | number {
  // A shared database counts leases by its own clock.
  const own = tx.dialect === 'postgres' && work.leaseMs !== null;
  return tx.insert(
    `INSERT INTO work (${NEW_WORK}) VALUES (?, ?, ?, ?, ?, ?, ${own ? 'now_ms() + CAST(? AS BIGINT)' : '?'}, ?, ?, 0, 0, 0)`,
    work.kind,
    work.accountId,
    work.mode,
    work.subject,
    work.ref,
    work.lane,
    (own ? 0 : work.dueMs) + (work.leaseMs ?? 0),
    work.leaseMs === null ? FREE : HELD,
    work.leaseMs === null ? 0 : FIRST_FENCE,
  );
}

/** Rows that are to be held at once, as their lane is full. */
export async function enqueueHeld(tx: Transaction, rows: readonly NewWork[]): Promise<number> {
  if (tx.dialect === 'postgres') return rows.length === 0 ? 0 : enqueueMany(tx, { rows, held: true });
  for (const row of rows) await tx.run('UPDATE work SET held = 1 WHERE seq = ?', await enqueue(tx, row));
  return rows.length;
}

export interface ManyRows {
  rows: readonly NewWork[];
  /** Numbers for the rows, from time_seq(); the database gives them its own where there are none. */
  numbers?: readonly number[];
  held?: boolean;
}

/** Many rows in one statement of a shared database. */
export function enqueueMany(tx: Transaction, { rows, numbers, held = false }: ManyRows): Promise<number> | number {
  const own: [column: string, list: string, array: Uint8Array[]] =
    numbers === undefined ? ['', '', []] : ['seq, ', 'CAST(? AS BIGINT[]), ', [bigintArray(numbers)]];
  return tx.run(
    `INSERT INTO work (${own[0]}${NEW_WORK})
     SELECT ${numbers === undefined ? '' : 'seq, '}kind, account_id, mode, subject, ref, lane,
       CASE WHEN lease IS NULL THEN due ELSE (SELECT now_ms()) + lease END,
       CASE WHEN lease IS NULL THEN ${FREE} ELSE ${HELD} END, CASE WHEN lease IS NULL THEN 0 ELSE ${FIRST_FENCE} END,
       0, 0, ${held ? 1 : 0}
     FROM unnest(${own[1]}CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]),
       CAST(? AS BIGINT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]))
       AS new (${own[0]}kind, account_id, mode, subject, ref, lane, due, lease)`,
    ...own[2],
    textArray(rows.map((row) => row.kind)),
    textArray(rows.map((row) => row.accountId)),
    textArray(rows.map((row) => row.mode)),
    textArray(rows.map((row) => row.subject)),
    bigintArray(rows.map((row) => row.ref)),
    textArray(rows.map((row) => row.lane)),
    bigintArray(rows.map((row) => row.dueMs)),
    bigintArray(rows.map((row) => row.leaseMs)),
  );
}

const VALUES = '?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0';
const UNNUMBERED = rowsOf('work', NEW_WORK, VALUES);
const NUMBERED = rowsOf('work', `seq, ${NEW_WORK}`, `?, ${VALUES}`);

/** The number after all that were ever given; this transaction is the only one that gives any. */
export function nextWorkSeq(tx: EmbeddedTransaction): number {
  const given = tx.get<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'work'");
  const present = tx.get<{ seq: number | null }>('SELECT max(seq) AS seq FROM work');
  return Math.max(given?.seq ?? 0, present?.seq ?? 0) + 1;
}

/** Many rows of the embedded database. `seqs` are their numbers, from nextWorkSeq on; without them it gives its own. */
export function enqueueRows(tx: EmbeddedTransaction, rows: readonly NewWork[], seqs?: readonly number[]): void {
  insertRows(
    tx,
    seqs === undefined ? UNNUMBERED : NUMBERED,
    rows.map((row, index) => {
      const values: SqlValue[] = [
        row.kind,
        row.accountId,
        row.mode,
        row.subject,
        row.ref,
        row.lane,
        row.dueMs + (row.leaseMs ?? 0),
        row.leaseMs === null ? FREE : HELD,
        row.leaseMs === null ? 0 : FIRST_FENCE,
      ];
      if (seqs !== undefined) values.unshift(seqs[index]!);
      return values;
    }),
  );
}

/** The table of work, and how rows are added: many at a time, in order, free, held, or leased to the process that creates them. */
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import { insertMany, table, takeNumbers } from '../storage/rows.ts';

/** Columns of new rows: `cause` and `failed_at` are set by the first failed attempt. */
export const WORK = table('work', {
  seq: 'int',
  kind: 'text',
  accountId: 'text',
  mode: 'text',
  subject: 'text',
  ref: 'int',
  lane: 'text',
  due: 'int',
  leased: 'int',
  fence: 'int',
  attempts: 'int',
  crashes: 'int',
  held: 'int',
});

export interface NewWork {
  kind: string;
  accountId: string;
  mode: Mode;
  /** What the work is about: an id whose meaning the kind defines. */
  subject: string;
  /** A number whose meaning the kind defines. */
  ref: number;
  /** Rows of one lane start in order and share a quota; they can run in parallel. */
  lane: string;
  /** Unix ms, real time: when the row is due, or until when it is leased. */
  dueMs: number;
  /** The creating transaction passes the row to its worker, without a claim. */
  isLeased?: boolean;
  /** The row is parked immediately, because its lane is full. */
  isParked?: boolean;
}

/** The fence of a row that was leased at its creation. */
export const FIRST_FENCE = 1;

/** Adds the rows in order; `seqs` are their numbers from takeNumbers(), if the caller has them. */
export async function enqueue(
  tx: Transaction,
  rows: readonly NewWork[],
  seqs?: readonly number[],
): Promise<readonly number[]> {
  if (rows.length === 0) return [];
  const numbers = seqs ?? (await takeNumbers(tx, [WORK, rows.length]))[0]!;
  await insertMany(
    tx,
    WORK,
    rows.map((row, index) => ({
      seq: numbers[index]!,
      kind: row.kind,
      accountId: row.accountId,
      mode: row.mode,
      subject: row.subject,
      ref: row.ref,
      lane: row.lane,
      due: row.dueMs,
      leased: row.isLeased ? LEASED.taken : LEASED.free,
      fence: row.isLeased ? FIRST_FENCE : 0,
      attempts: 0,
      crashes: 0,
      held: row.isParked ? HELD.parked : HELD.no,
    })),
  );
  return numbers;
}

/** Values of the column `leased`: whether a process has the row, and whether it runs it. */
export const LEASED = { free: 0, taken: 1, running: 2 } as const;

/**
 * Values of the column `held`. A parked row waits until its lane has drained, and a row behind another one until its kind frees it. Neither is
 * claimed.
 */
export const HELD = { no: 0, parked: 1, behind: 2 } as const;

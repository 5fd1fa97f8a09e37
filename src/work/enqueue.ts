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
  /** Rows of one lane run one after another; lanes are independent. */
  lane: string;
  /** Unix ms, real time: when the row is due, or until when it is leased. */
  dueMs: number;
  /** The creating transaction passes the row to its worker, without a claim. */
  isLeased?: boolean;
  /** The row is parked immediately, because its lane is full. */
  isHeld?: boolean;
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
      leased: row.isLeased ? HELD : FREE,
      fence: row.isLeased ? FIRST_FENCE : 0,
      attempts: 0,
      crashes: 0,
      held: row.isHeld ? 1 : 0,
    })),
  );
  return numbers;
}

/** A value of `held`: the row waits for another row, as its kind decides, and is not claimed until that frees it. Parked rows have 1. */
export const HELD_BACK = 2;
export const FREE = 0;
export const HELD = 1;
export const RUNNING = 2;

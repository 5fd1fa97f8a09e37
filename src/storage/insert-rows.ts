/**
 * Many rows of one table of the embedded database in few statements: a statement for one row costs a third more a row, since
 * each has to be bound, stepped and reset, and keeps the table's own count of numbers.
 */
import type { EmbeddedTransaction, SqlValue } from './operation.ts';

/** Rows in one statement, largest first: few different statements, each prepared once. */
const STEPS = [16, 8, 4, 2, 1];

export interface RowsOf {
  /** For each of STEPS. */
  statements: readonly string[];
}

/** `columns` and `values` as SQL writes them, one `?` for each value of a row. */
export function rowsOf(table: string, columns: string, values: string): RowsOf {
  return {
    statements: STEPS.map(
      (rows) => `INSERT INTO ${table} (${columns}) VALUES ${Array(rows).fill(`(${values})`).join(', ')}`,
    ),
  };
}

/**
 * Inserts the rows in their order; answers the number of the last one, in a table that has numbers. The database gives those of
 * one call without a gap, as long as there is one writer.
 */
export function insertRows(tx: EmbeddedTransaction, { statements }: RowsOf, rows: readonly SqlValue[][]): number {
  let last = 0;
  let done = 0;
  for (const [index, step] of STEPS.entries()) {
    for (; rows.length - done >= step; done += step) {
      last =
        step === 1
          ? tx.insert(statements[index]!, ...rows[done]!)
          : insertStep(tx, statements[index]!, rows, done, step);
    }
  }
  return last;
}

function insertStep(
  tx: EmbeddedTransaction,
  statement: string,
  rows: readonly SqlValue[][],
  from: number,
  count: number,
): number {
  const values: SqlValue[] = [];
  for (let at = from; at < from + count; at += 1) values.push(...rows[at]!);
  return tx.insert(statement, ...values);
}

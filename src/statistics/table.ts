/** The table of counters, and its rows. */
import { type TableRow, table } from '../storage/rows.ts';
import { COUNTERS, type Counted } from './counts.ts';
import { packHistogram, unpackHistogram } from './histogram.ts';

export const STATISTICS = table('statistics', {
  accountId: 'text',
  mode: 'text',
  dimension: 'text',
  period: 'text',
  start: 'int',
  groupValue: 'text',
  accepted: 'int',
  delivered: 'int',
  bouncedHard: 'int',
  bouncedSoft: 'int',
  bouncedBlock: 'int',
  delayed: 'int',
  suppressed: 'int',
  complained: 'int',
  opened: 'int',
  clicked: 'int',
  unsubscribed: 'int',
  deliveryMs: 'bytes?',
});

/** Returns the column name of a counter. */
export const columnOf = (counter: string): string => counter.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** A row as SELECT returns it, with the fields' own names. */
export interface StoredRow extends Omit<Counted, 'deliveryMs'> {
  deliveryMs: Uint8Array | null;
}

/** The fields of StoredRow, for a table alias `s`. */
export const STORED = ['dimension', 'period', 'start', 'groupValue', ...COUNTERS, 'deliveryMs']
  .map((field) => `s.${columnOf(field)} AS "${field}"`)
  .join(', ');

export function countedOf(row: StoredRow): Counted {
  return { ...row, deliveryMs: unpackHistogram(row.deliveryMs) };
}

export function tableRowOf(owner: { accountId: string; mode: string }, counted: Counted): TableRow<typeof STATISTICS> {
  return { ...owner, ...counted, deliveryMs: packHistogram(counted.deliveryMs) };
}

/**
 * CSV files of lists (RFC 4180). Text that a spreadsheet would treat as a formula is prefixed with an apostrophe: subjects and names from
 * untrusted senders must not run on the user's machine (OWASP, CSV injection).
 */
import { notifications } from '@mantine/notifications';
import { lists } from '../texts/parts.ts';

export type Cell = string | number | boolean | null | undefined;

/** Maximum rows of one file; use the API for more. */
const ROWS_AT_MOST = 10_000;
const FORMULA = /^[=+\-@\t\r]/;

export function csvCell(value: Cell): string {
  if (typeof value === 'number') return String(value);
  const text = String(value ?? '');
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

interface CsvColumn<T> {
  name: string;
  text?(row: T): Cell;
}

export async function csvOf<T>(
  columns: readonly CsvColumn<T>[],
  rows: Iterable<T> | AsyncIterable<T>,
): Promise<{ csv: string; isWhole: boolean }> {
  const shown = columns.filter((column) => column.text !== undefined);
  const lines = [shown.map(({ name }) => csvCell(name)).join(',')];
  let isWhole = true;
  for await (const row of rows) {
    if (lines.length > ROWS_AT_MOST) {
      isWhole = false;
      break;
    }
    lines.push(shown.map((column) => csvCell(column.text!(row))).join(','));
  }
  return { csv: `${lines.join('\r\n')}\r\n`, isWhole };
}

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export async function saveCsv<T>(
  name: string,
  columns: readonly CsvColumn<T>[],
  rows: Iterable<T> | AsyncIterable<T>,
): Promise<void> {
  try {
    const { csv, isWhole } = await csvOf(columns, rows);
    saveFile(`${name}.csv`, new Blob(['\uFEFF', csv], { type: 'text/csv;charset=utf-8' }));
    if (!isWhole) notifications.show({ message: lists.csvMany(ROWS_AT_MOST) });
  } catch (error) {
    notifications.show({ color: 'red', title: lists.csvFailed, message: (error as Error).message });
  }
}

/** Writes CSV (RFC 4180) whose cells spreadsheets do not execute as formulas. */

/** Texts that a spreadsheet takes for a formula; a leading apostrophe makes them text, and is removed on import. */
const FORMULA = /^'*[=+\-@\t\r]/;

function csvCell(cell: string): string {
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns one line including its line end. */
export function csvLine(cells: readonly (string | null)[]): string {
  return `${cells.map((cell) => csvCell(cell ?? '')).join(',')}\r\n`;
}

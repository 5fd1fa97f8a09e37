/** Writing CSV (RFC 4180) that spreadsheets open without running what stands in it. */

/** What a spreadsheet takes for a formula; a quote in front makes it a text, and is taken off when we read it back. */
const FORMULA = /^'*[=+\-@\t\r]/;

function csvCell(cell: string): string {
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One line with its end. */
export function csvLine(cells: readonly (string | null)[]): string {
  return `${cells.map((cell) => csvCell(cell ?? '')).join(',')}\r\n`;
}

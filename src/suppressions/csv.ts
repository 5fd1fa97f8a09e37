/**
 * The suppression list as CSV (RFC 4180). The import accepts exported files and plain lists: a first line with column names is optional,
 * `email` is the only required column, and unknown columns are ignored. If a line is invalid, the complete file is refused, and every
 * invalid line is reported. An address that a spreadsheet would read as a formula is exported with a leading apostrophe, which the import
 * removes.
 */
import { Readable } from 'node:stream';
import { iso, isoOrNull } from '../base/clock.ts';
import { csvLine } from '../base/csv.ts';
import { firstIssue, type Issue, invalid, MAX_ISSUES, ok, type Result, refuse } from '../base/failure.ts';
import { timeSlice } from '../base/time-slice.ts';
import { isoTimeMs } from '../http/validate.ts';
import { parseAddress, sameAddressKey } from '../mail/address.ts';
import { mergedEntry, SUPPRESSION_REASONS, type Suppression, type SuppressionReason } from './store.ts';

const MAX_LINES = 100_000;
const EXPORT_COLUMNS = ['email', 'reason', 'sourceMessageId', 'expiresAt', 'createdAt'];

/** The apostrophe that the export adds. */
const GUARDED = /^'(?='*[=+\-@\t\r])/;

interface CsvLine {
  number: number;
  cells: string[];
}

/** Returns lines of cells without empty lines, or an issue if a quote is not closed. */
function readCsv(text: string): { lines: CsvLine[] } | { unclosedAt: number } {
  const lines: CsvLine[] = [];
  let cells: string[] = [];
  let cell = '';
  let quoted = false;
  let number = 1;
  let startedAt = 1;
  const endLine = (): void => {
    cells.push(cell);
    if (cells.length > 1 || cell.trim() !== '') lines.push({ number: startedAt, cells });
    cells = [];
    cell = '';
  };
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i]!;
    if (c === '\n') number += 1;
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') {
        cell += '"';
        i += 1;
      } else quoted = false;
    } else if (c === '"' && cell === '') quoted = true;
    else if (c === ',') {
      cells.push(cell);
      cell = '';
    } else if (c === '\n') {
      endLine();
      startedAt = number;
    } else if (c !== '\r' || text[i + 1] !== '\n') cell += c;
  }
  if (quoted) return { unclosedAt: startedAt };
  endLine();
  return { lines };
}

interface Columns {
  email: number;
  reason: number;
  expiresAt: number;
}

/** Returns the positions of the columns, and whether the first line names them. */
function columnsOf(first: CsvLine): Columns & { named: boolean } {
  const names = first.cells.map((cell) => cell.trim().toLowerCase());
  if (!names.includes('email')) return { named: false, email: 0, reason: 1, expiresAt: -1 };
  return {
    named: true,
    email: names.indexOf('email'),
    reason: names.indexOf('reason'),
    expiresAt: names.indexOf('expiresat'),
  };
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const WRITTEN_TIME = /^(\d{4}-\d{2}-\d{2})[T ](\S+?)(?: ?(Z|UTC|[+-]\d{2}(?::?\d{2})?))?$/i;

/** Returns the Unix ms of an ISO 8601 date or time as other programs write it, in UTC if it has no zone; NaN for any other text. */
function expiryMs(text: string): number {
  if (DATE.test(text)) return isoTimeMs(`${text}T00:00:00Z`);
  const [, date, time, zone = 'Z'] = WRITTEN_TIME.exec(text) ?? [];
  if (date === undefined) return Number.NaN;
  const [, sign, hours, minutes = '00'] = /^([+-])(\d{2}):?(\d{2})?$/.exec(zone) ?? [];
  return isoTimeMs(`${date}T${time}${sign === undefined ? 'Z' : `${sign}${hours}:${minutes}`}`);
}

function readLine(line: CsvLine, columns: Columns, nowMs: number): Suppression | string {
  const cell = (index: number): string => line.cells[index]?.trim() ?? '';
  const address = parseAddress(cell(columns.email).replace(GUARDED, ''));
  if (!address.ok) return `the address ${address.reason}`;
  if (address.value.name !== '') return 'the address must be a bare address without a display name';
  const reason = cell(columns.reason).toLowerCase() || 'manual';
  if (!SUPPRESSION_REASONS.includes(reason as SuppressionReason)) {
    return `the reason must be one of: ${SUPPRESSION_REASONS.join(', ')}`;
  }
  const expiry = cell(columns.expiresAt);
  const expiresAt = expiry === '' ? null : expiryMs(expiry);
  if (Number.isNaN(expiresAt)) return 'expiresAt must be an ISO 8601 date or time, such as 2027-01-31T12:00:00Z';
  const email = sameAddressKey(address.value);
  return { email, reason: reason as SuppressionReason, sourceMessageId: null, expiresAt, createdAt: nowMs };
}

/**
 * Returns the entries of a file, one for each address, and how many lines are merged with an earlier one or have expired. INVALID_REQUEST
 * lists every invalid line.
 */
export async function readSuppressions(
  text: string,
  nowMs: number,
): Promise<Result<{ suppressions: Suppression[]; skipped: number }>> {
  const read = readCsv(text.startsWith('\uFEFF') ? text.slice(1) : text);
  if ('unclosedAt' in read) {
    return refuse(invalid([{ field: `line ${read.unclosedAt}`, message: 'has an unclosed quote' }]));
  }
  const [first, ...rest] = read.lines;
  if (!first) return refuse(invalid([{ field: '', message: 'must have at least one address' }]));
  const columns = columnsOf(first);
  const lines = columns.named ? rest : read.lines;
  if (lines.length > MAX_LINES)
    return refuse(invalid([{ field: '', message: `must have at most ${MAX_LINES} lines` }]));
  const issues: Issue[] = [];
  const found = new Map<string, Suppression>();
  let skipped = 0;
  for (const line of lines) {
    const wait = timeSlice();
    if (wait) await wait;
    const one = readLine(line, columns, nowMs);
    if (typeof one === 'string') issues.push({ field: `line ${line.number}`, message: one });
    else if (one.expiresAt !== null && one.expiresAt <= nowMs) skipped += 1;
    else {
      const known = found.get(one.email);
      if (known !== undefined) skipped += 1;
      found.set(one.email, known === undefined ? one : mergedEntry(known, one));
    }
  }
  if (issues.length > 0) {
    const message = `${issues.length} of ${lines.length} lines are not valid. Nothing was imported: ${firstIssue(issues)}.`;
    return refuse(invalid(issues.slice(0, MAX_ISSUES), message));
  }
  return ok({ suppressions: [...found.values()], skipped });
}

function exportLine({ email, reason, sourceMessageId, expiresAt, createdAt }: Suppression): string {
  return csvLine([email, reason, sourceMessageId, isoOrNull(expiresAt), iso(createdAt)]);
}

/** Returns the list as a stream; `read` returns the rows after an address, none at the end. */
export function suppressionsCsv(read: (after: string) => Promise<Suppression[]>): Readable {
  async function* chunks(): AsyncGenerator<string> {
    yield `${EXPORT_COLUMNS.join(',')}\r\n`;
    let after = '';
    for (;;) {
      const rows = await read(after);
      const last = rows.at(-1);
      if (!last) return;
      yield rows.map(exportLine).join('');
      after = last.email;
    }
  }
  return Readable.from(chunks(), { objectMode: false });
}

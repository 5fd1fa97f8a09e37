/**
 * Reads a list of addresses in common formats: with commas, semicolons or tabs, with or without column names, from another service or a
 * spreadsheet. It is sent to the API in parts below the size limit, each starting with the column names.
 */
export interface ImportLine {
  /** Line number in the file, from 1. */
  number: number;
  email: string;
  reason: string;
  expiresAt: string;
}

export interface Part {
  lines: readonly ImportLine[];
  body: string;
}

const HEADER = 'email,reason,expiresAt';
/** Small enough to show progress, and far below the API's 5 MB. */
const PART_LINES = 2_000;
const PART_BYTES = 1_000_000;

const NAMES = {
  email: /^(?:e-?mail|(?:e-?mail ?)?address|recipient)$/i,
  reason: /^reason$/i,
  expiresAt: /^expires ?at$/i,
};

interface Cells {
  number: number;
  cells: string[];
}

/** Returns the separator of the first line. */
function delimiterOf(text: string): string {
  const first = /^[^\r\n]*/.exec(text)![0];
  return [';', '\t'].find((one) => first.includes(one) && !first.includes(',')) ?? ',';
}

/** Splits text into lines of cells (RFC 4180); skips empty lines, and an unclosed quote ends with the file. */
function cellsOf(text: string): Cells[] {
  const delimiter = delimiterOf(text);
  const lines: Cells[] = [];
  let [cells, cell, isQuoted, number, startedAt] = [[] as string[], '', false, 1, 1];
  const endLine = (): void => {
    cells.push(cell.trim());
    if (cells.some((one) => one !== '')) lines.push({ number: startedAt, cells });
    [cells, cell] = [[], ''];
  };
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]!;
    if (character === '\n') number += 1;
    if (isQuoted && character === '"' && text[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (character === '"' && (isQuoted || cell.trim() === '')) isQuoted = !isQuoted;
    else if (isQuoted) cell += character;
    else if (character === delimiter) {
      cells.push(cell.trim());
      cell = '';
    } else if (character === '\n') {
      endLine();
      startedAt = number;
    } else cell += character;
  }
  endLine();
  return lines;
}

export function linesOf(text: string): ImportLine[] {
  const lines = cellsOf(text.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n'));
  const first = lines[0]?.cells ?? [];
  const placeOf = (name: RegExp): number => first.findIndex((cell) => name.test(cell));
  const isNamed = placeOf(NAMES.email) !== -1;
  const places = isNamed
    ? { email: placeOf(NAMES.email), reason: placeOf(NAMES.reason), expiresAt: placeOf(NAMES.expiresAt) }
    : { email: 0, reason: 1, expiresAt: 2 };
  return lines.slice(isNamed ? 1 : 0).map(({ number, cells }) => ({
    number,
    email: cells[places.email] ?? '',
    reason: cells[places.reason] ?? '',
    expiresAt: cells[places.expiresAt] ?? '',
  }));
}

/** Formats a cell in one line, whatever it contains. */
function cellOf(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return /[",]/.test(line) ? `"${line.replaceAll('"', '""')}"` : line;
}

const rowOf = ({ email, reason, expiresAt }: ImportLine): string => [email, reason, expiresAt].map(cellOf).join(',');

export const partOf = (lines: readonly ImportLine[]): Part => ({
  lines,
  body: `${[HEADER, ...lines.map(rowOf)].join('\n')}\n`,
});

export function partsOf(lines: readonly ImportLine[]): Part[] {
  const encoder = new TextEncoder();
  const parts: Part[] = [];
  let [part, bytes] = [[] as ImportLine[], 0];
  for (const line of lines) {
    const more = encoder.encode(rowOf(line)).length + 1;
    if (part.length === PART_LINES || (part.length > 0 && bytes + more > PART_BYTES)) {
      parts.push(partOf(part));
      [part, bytes] = [[], 0];
    }
    part.push(line);
    bytes += more;
  }
  if (part.length > 0) parts.push(partOf(part));
  return parts;
}

export interface FaultyLine {
  number: number;
  message: string;
}

/** Returns the lines of a part that the API rejected as "line N"; line 1 has the column names. */
export function faultyOf({ lines }: Part, details: readonly { field: string; message: string }[]): FaultyLine[] {
  return details.flatMap(({ field, message }) => {
    const line = lines[Number(/^line (\d+)$/.exec(field)?.[1]) - 2];
    return line === undefined ? [] : [{ number: line.number, message }];
  });
}

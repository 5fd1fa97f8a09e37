/**
 * Recognizes what email clients put above a message that they quote completely: a line such as `-----Original Message-----`, and a block of
 * header fields (From, Sent, To, Subject) in the languages and the order of the client. Labels alone prove little ("From: Berlin", "Date: 3
 * May" is an order), so a block needs the sender and something that only mail has: a subject, or an address with a date.
 */
import { plainLine } from './attribution.ts';
import { HEADER_LABELS, QUOTE_BEGINS, SEPARATORS } from './reply-phrases.ts';

type Kind = keyof typeof HEADER_LABELS;

const lower = (text: string): string => text.toLowerCase().replace(/[’‘]/g, "'").normalize('NFC');
const separators = new Set(SEPARATORS.map(lower));
const begins = new Set(QUOTE_BEGINS.map(lower));
const kinds = new Map<string, Kind>();
for (const kind of Object.keys(HEADER_LABELS) as Kind[]) {
  for (const label of HEADER_LABELS[kind]) if (!kinds.has(lower(label))) kinds.set(lower(label), kind);
}

/** The first dashes are read once, to their end: otherwise a line of dashes takes quadratic time. */
const BETWEEN_DASHES = /^[-_=—–*~]{2,}(?![-_=—–*~])\s*(\S.{0,80}?)\s*[-_=—–*~]{2,}[:：]?$/;
/** Yahoo writes the separator and fields in one line. */
const DASHES_AND_FIELDS = /^[-_=—–*~]{2,}(?![-_=—–*~])\s*(\S.{0,80}?)\s*[-_=—–*~]{2,}\s+(\S.*[:：].*)$/;
/** `From: Shop`, `*From:* Shop`, `De : Shop`, and the table of NetEase: `| From | Shop |`. */
const LABEL = /^(?:\|\s*)?[*_]{0,2}([^\s:：|*][^:：|*]{0,30}?)[*_]{0,2}\s?(?:[:：]\s?[*_]{0,2}|\|)\s?(.*)$/;
const MOST_LINES = 24;

/** Returns whether the line announces the original or a forwarded mail. */
export function isSeparator(line: string): boolean {
  const text = plainLine(line);
  const between = BETWEEN_DASHES.exec(text)?.[1] ?? DASHES_AND_FIELDS.exec(text)?.[1];
  return between !== undefined && separators.has(lower(between));
}

/** Returns whether the line introduces fields or a quote without dashes: "Original Message", "Begin forwarded message:". */
export function isIntroduction(line: string): boolean {
  const text = lower(plainLine(line));
  if (separators.has(text.replace(/[:：]$/, '')) || begins.has(text.replace(/\s?[:：]$/, ''))) return true;
  // Orange and La Poste: "Message du 26/11/26 10:00".
  const [words] = /^\p{L}+(?: \p{L}+){0,2}(?= :? ?\d)/u.exec(text) ?? [];
  return words !== undefined && begins.has(words);
}

interface ReadLine {
  line: string;
  label: { kind: Kind; value: string } | undefined;
}

/** A line can belong to a block that starts up to MOST_LINES lines before it, but is read only once. */
const readLines = new WeakMap<readonly string[], Map<number, ReadLine>>();

function readLine(lines: readonly string[], index: number): ReadLine {
  let known = readLines.get(lines);
  if (known === undefined) {
    known = new Map();
    readLines.set(lines, known);
  }
  const cached = known.get(index);
  if (cached) return cached;
  const line = plainLine(lines[index] ?? '');
  const match = LABEL.exec(line);
  const kind = match ? kinds.get(lower(match[1]!.trim())) : undefined;
  const read: ReadLine = { line, label: match && kind ? { kind, value: match[2]! } : undefined };
  known.set(index, read);
  return read;
}

/** Returns the index after the block of header fields that starts here; undefined if none starts. */
export function afterHeaderFields(lines: readonly string[], from: number): number | undefined {
  const found = new Map<Kind, string>();
  let [end, last]: [number, Kind | undefined] = [from, undefined];
  for (let index = from; index < Math.min(lines.length, from + MOST_LINES); index += 1) {
    const { line, label } = readLine(lines, index);
    if (label) {
      if (!found.has(label.kind)) found.set(label.kind, label.value);
      last = label.kind;
    } else if (last === undefined || !continues(lines, { index, line, last })) break;
    end = index + 1;
  }
  if (!isMailHeader(found)) return undefined;
  // Sender and date alone may be two lines of a list, unless they are a separate paragraph.
  const isShort = !found.has('to') && !found.has('subject');
  const isApart = (line: string | undefined): boolean => line === undefined || /^[-_=*\s]*$/.test(line);
  return !isShort || (isApart(lines[from - 1]) && isApart(lines[end])) ? end : undefined;
}

/** Returns whether the line continues the block: a wrapped value, or a blank line between two fields. */
function continues(
  lines: readonly string[],
  { index, line, last }: { index: number; line: string; last: Kind },
): boolean {
  if (line === '' || /^[|\s:-]+$/.test(line)) return readLine(lines, index + 1).label !== undefined;
  if (last === 'subject') return /^\s/.test(lines[index]!) && readLine(lines, index + 1).label !== undefined;
  return /^[<"'[(]|@/.test(line) || (last === 'date' && /^\d{1,2}[:.]\d{2}/.test(line));
}

const hasDigit = (text: string | undefined): boolean => text !== undefined && /\d/.test(text);

/** Returns whether these are fields of a message: a sender, and evidence that the author's own lists do not have. */
function isMailHeader(found: ReadonlyMap<Kind, string>): boolean {
  const from = found.get('from');
  if (from === undefined) return false;
  const hasAddress = from.includes('@') || (found.get('to') ?? '').includes('@');
  const [date, hasSubject, hasTo] = [found.get('date'), found.has('subject'), found.has('to')];
  if (hasAddress && (date !== undefined || hasSubject))
    return hasTo || (date !== undefined && hasSubject) || (hasDigit(date) && /\d[:.]\d\d|\d{4}/.test(date!));
  return date !== undefined && hasSubject && (hasTo || hasDigit(date));
}

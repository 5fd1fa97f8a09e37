/**
 * Parses a received mail for the readers of reports: header fields, and the parts with their decoded content. Accepts anything: any line
 * ends, unclosed structures, unknown charsets. A message within a message stays one part, so what a report quotes is never taken for the
 * report itself. Everything is limited and decoded on demand, which bounds time and memory.
 */
import { decodeText } from '../inbound/decode-text.ts';
import { decodeTransfer } from '../inbound/transfer-decoding.ts';
import { displayedText, fieldValue, type HeaderField, headerFields } from '../mime/header-fields.ts';
import { type Entity, parameterizedValue, parameterValue, walkThrough } from '../mime/mime-walk.ts';
import { decodeQuotedPrintable } from '../mime/track-submitted.ts';
import { CONDENSED_BYTES, condensed, MAX_DEPTH, MAX_PARTS } from './condense.ts';
import { UNPRINTABLE } from './quoted-reply.ts';

const MAX_FIELDS = 1000;
/** Maximum number of fields with the same name. */
const MAX_VALUES = 100;
const MAX_HEADER = 128_000;
const MAX_VALUE = 4000;
const MAX_PART = 128_000;
const MAX_LINE = 2000;
const MAX_SUBJECT = 1000;

export interface Fields {
  first(name: string): string;
  all(name: string): readonly string[];
  readonly size: number;
}

export interface ReceivedPart {
  /** In lower case. */
  type: string;
  /** Decoded, in Unicode, with `\n` after each line; lines over 2,000 characters are cut. */
  text(): string;
  /** The decoded bytes as Latin-1, with CRLF. */
  latin1(): string;
}

export interface ReceivedMail {
  header: Fields;
  reportType: string;
  /** All parts that are not multiparts, in order. */
  parts: readonly ReceivedPart[];
}

export function subjectOf({ header }: ReceivedMail): string {
  return header.first('subject').slice(0, MAX_SUBJECT);
}

function readValue(text: string, field: HeaderField): string {
  const written = fieldValue(text, field).slice(0, MAX_VALUE);
  return displayedText(written).replace(UNPRINTABLE, ' ').toWellFormed();
}

/** Returns the fields of a header block given as Latin-1 with CRLF; reads up to the empty line. */
export function fieldsOf(block: string): Fields {
  const end = block.startsWith('\r\n') ? 0 : block.indexOf('\r\n\r\n');
  const text = block.slice(0, Math.min(end < 0 ? block.length : end + 2, MAX_HEADER));
  const byName = new Map<string, HeaderField[]>();
  let size = 0;
  for (const field of headerFields(text, MAX_FIELDS)) {
    if (field.name === '') continue;
    size += 1;
    const known = byName.get(field.name);
    if (known === undefined) byName.set(field.name, [field]);
    else if (known.length < MAX_VALUES) known.push(field);
  }
  const values = (name: string, atMost: number): string[] =>
    (byName.get(name) ?? []).slice(0, atMost).map((field) => readValue(text, field));
  return { size, first: (name) => values(name, 1)[0] ?? '', all: (name) => values(name, MAX_VALUES) };
}

const STRAY_LINE_END = /\r(?!\n)|(?<!\r)\n/;

const withCrlf = (text: string): string => (STRAY_LINE_END.test(text) ? text.replace(/\r\n?|\n/g, '\r\n') : text);

/** Returns the mail, or undefined if it has no usable header. */
export function readReceived(raw: Uint8Array): ReceivedMail | undefined {
  const whole = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
  const bytes = whole.length > CONDENSED_BYTES ? condensed(whole) : whole;
  const text = withCrlf(bytes.toString('latin1').replace(/^(?:[ \t]*\r?\n)+/, ''));
  const header = fieldsOf(text);
  if (header.size === 0) return undefined;
  const { entities } = walkThrough(text, { depth: MAX_DEPTH, parts: MAX_PARTS, nests: () => false });
  const leaves = entities.filter((one) => one.kind === 'leaf').slice(0, MAX_PARTS);
  const { parameters } = parameterizedValue(header.first('content-type'));
  return {
    header,
    reportType: (parameterValue(parameters, 'report-type') ?? '').toLowerCase(),
    parts: (leaves.length > 0 ? leaves : [asText(entities[0]!)]).map((entity) => partOf(text, entity)),
  };
}

/** A multipart without its delimiters is read as text. */
function asText(entity: Entity): Entity {
  return { ...entity, type: 'text/plain' };
}

function partOf(mail: string, { type, encoding, charset, bodyStart, bodyEnd }: Entity): ReceivedPart {
  const decoded = (): Buffer => {
    const body = mail.slice(bodyStart, Math.min(bodyEnd, bodyStart + MAX_PART));
    const bytes = Buffer.from(body, 'latin1');
    if (encoding === 'base64') return decodeTransfer(bytes, encoding);
    return encoding === 'quoted-printable' ? decodeQuotedPrintable(bytes).bytes : bytes;
  };
  const isHtml = type === 'text/html';
  const isCut = bodyEnd - bodyStart > MAX_PART;
  return {
    type,
    text: () => shortLines(decodeText(decoded(), { charset, isHtml, isCut }).text),
    latin1: () => withCrlf(decoded().toString('latin1')),
  };
}

function shortLines(text: string): string {
  return text
    .split(/\r\n|[\r\n\u2028]/)
    .map((line) => (line.length > MAX_LINE ? line.slice(0, MAX_LINE) : line))
    .join('\n')
    .toWellFormed();
}

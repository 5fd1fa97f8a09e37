/**
 * A received mail as the readers of reports see it: header fields, and the parts with their content decoded. Takes whatever
 * comes: any line ends, structures that do not close, charsets that do not exist. Mail in a mail stays one part: what a report
 * quotes is never taken for the report itself. Everything is cut at a limit, so that time and memory are bounded.
 */
import { decodeWords, fieldValue, headerFields, headerText } from '../mime/header-fields.ts';
import { type Entity, parameterisedValue, parameterValue, walkThrough } from '../mime/mime-walk.ts';
import { decodeQuotedPrintable } from '../mime/track-submitted.ts';
import { UNPRINTABLE } from './said-reply.ts';

export interface ReportLimits {
  /** What stands behind is not read. */
  bytes: number;
  /** Multiparts inside each other. */
  depth: number;
  parts: number;
}

export const REPORT_LIMITS: ReportLimits = { bytes: 1_000_000, depth: 10, parts: 200 };

const MAX_FIELDS = 1000;
const MAX_HEADER = 128_000;
const MAX_VALUE = 4000;
const MAX_PART = 128_000;
/** Characters of all texts of a mail that are decoded; a part read beyond is empty. */
const MAX_DECODED = 1_000_000;
const MAX_LINE = 2000;

export interface Fields {
  first(name: string): string;
  all(name: string): readonly string[];
  readonly size: number;
}

export interface ReceivedPart {
  /** In lower case. */
  type: string;
  parameter(name: string): string;
  isAttachment: boolean;
  /** Decoded, in Unicode, with `\n` behind each line; lines beyond 2,000 characters are cut. */
  text(): string;
  /** The decoded bytes read as Latin-1, with CRLF. */
  latin1(): string;
}

export interface ReceivedMail {
  header: Fields;
  /** Type of the whole, in lower case. */
  type: string;
  reportType: string;
  /** Everything that is no multipart, in its order. */
  parts: readonly ReceivedPart[];
}

/** Some programs write it into header fields as it is. */
function japanese(latin1: string): string {
  return new TextDecoder('iso-2022-jp').decode(Buffer.from(latin1, 'latin1'));
}

/** Fields of a header block given as Latin-1 with CRLF; reads up to the empty line. */
export function fieldsOf(block: string): Fields {
  const end = block.startsWith('\r\n') ? 0 : block.indexOf('\r\n\r\n');
  const text = block.slice(0, Math.min(end < 0 ? block.length : end + 2, MAX_HEADER));
  const byName = new Map<string, string[]>();
  let size = 0;
  for (const field of headerFields(text, MAX_FIELDS)) {
    if (field.name === '') continue;
    size += 1;
    const written = fieldValue(text, field).slice(0, MAX_VALUE);
    const decoded = written.includes('\x1b$') ? japanese(written) : decodeWords(headerText(written));
    const value = decoded.replace(UNPRINTABLE, ' ').toWellFormed();
    const known = byName.get(field.name);
    if (known) known.push(value);
    else byName.set(field.name, [value]);
  }
  return { size, first: (name) => byName.get(name)?.[0] ?? '', all: (name) => byName.get(name) ?? [] };
}

function decodeCharset(bytes: Buffer, charset: string): string {
  if (charset !== '' && !/^(us-)?ascii$|^utf-?8$/i.test(charset)) {
    try {
      return new TextDecoder(charset).decode(bytes);
    } catch {
      // A charset that nobody knows: what the bytes look like.
    }
  }
  return headerText(bytes.toString('latin1'));
}

const withCrlf = (text: string): string => text.replace(/\r\n?|\n/g, '\r\n');

/** The mail, or undefined where there is no header to speak of. */
export function readReceived(raw: Uint8Array, limits: ReportLimits): ReceivedMail | undefined {
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, Math.min(raw.byteLength, limits.bytes));
  const text = withCrlf(bytes.toString('latin1').replace(/^(?:[ \t]*\r?\n)+/, ''));
  const header = fieldsOf(text);
  if (header.size === 0) return undefined;
  const { entities } = walkThrough(text, { depth: limits.depth, parts: limits.parts, nests: () => false });
  const budget = { left: MAX_DECODED };
  const leaves = entities.filter((one) => one.kind === 'leaf').slice(0, limits.parts);
  const { main, parameters } = parameterisedValue(header.first('content-type'));
  return {
    header,
    type: main,
    reportType: (parameterValue(parameters, 'report-type') ?? '').toLowerCase(),
    parts: (leaves.length > 0 ? leaves : [asText(entities[0]!)]).map((entity) => partOf(text, entity, budget)),
  };
}

/** A multipart whose delimiters are missing is read as the text that it is. */
function asText(entity: Entity): Entity {
  return { ...entity, type: 'text/plain' };
}

function partOf(mail: string, entity: Entity, budget: { left: number }): ReceivedPart {
  const fields = fieldsOf(mail.slice(entity.headerStart, Math.min(entity.bodyStart, entity.headerStart + MAX_HEADER)));
  const { parameters } = parameterisedValue(fields.first('content-type'));
  const decoded = (): Buffer => {
    const length = Math.min(MAX_PART, budget.left);
    budget.left -= Math.min(length, Math.max(0, entity.bodyEnd - entity.bodyStart));
    const body = mail.slice(entity.bodyStart, Math.min(entity.bodyEnd, entity.bodyStart + length));
    if (entity.encoding === 'base64') return Buffer.from(body, 'base64');
    const bytes = Buffer.from(body, 'latin1');
    return entity.encoding === 'quoted-printable' ? decodeQuotedPrintable(bytes).bytes : bytes;
  };
  return {
    type: entity.type,
    parameter: (name) => parameterValue(parameters, name) ?? '',
    isAttachment: parameterisedValue(fields.first('content-disposition')).main === 'attachment',
    text: () => shortLines(decodeCharset(decoded(), parameterValue(parameters, 'charset') ?? '')),
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

/**
 * Reads an inbound message: its headers, text, and HTML, and the positions of its files. Limits the depth, the number of parts, and the
 * bytes of headers and texts. The time is linear in the size, and long work yields to the event loop. Anything that exceeds a limit or
 * cannot be decoded is reported in `unreadable`, and everything else is read. Attached messages and archives are files and are not
 * unpacked; a winmail.dat is replaced by the files in it.
 */
import { timeSlice } from '../../base/time-slice.ts';
import { htmlToText } from '../html/html-text.ts';
import { displayedText, fieldValue, type HeaderField, headerFields, writtenName } from '../mime/header-fields.ts';
import { type Entity, type FieldParameter, MimeWalk, parameterizedValue, parameterValue } from '../mime/mime-walk.ts';
import { decodeText } from './decode-text.ts';
import { nameOfText, safeName, usualName, writtenName as writtenFileName } from './file-name.ts';
import { unflowed } from './flowed-text.ts';
import { readTnef, type Tnef } from './tnef.ts';
import {
  decodedSize,
  decodeTransfer,
  decodeWhole,
  encodedLength,
  type TransferEncoding,
  transferEncodingOf,
} from './transfer-decoding.ts';

export interface MailHeader {
  name: string;
  /** Decoded and unfolded. */
  value: string;
}

/** A file and its position in the message. */
export interface MailFile {
  name: string;
  /** Type declared in the message, without parameters. Do not trust it. */
  contentType: string;
  /** Decoded size. */
  sizeBytes: number;
  /** Content-ID without angle brackets; null if the part has none. */
  contentId: string | null;
  encoding: TransferEncoding;
  /** Offsets of its encoded bytes in the message. */
  from: number;
  to: number;
  /** Position in the decoded bytes of the winmail.dat, if the file is in one. */
  within?: { offset: number; length: number };
}

export interface ParsedMail {
  headers: MailHeader[];
  text: string | null;
  html: string | null;
  /** Whether the text was derived from the HTML. */
  textFromHtml: boolean;
  textTruncated: boolean;
  htmlTruncated: boolean;
  files: MailFile[];
  /** Number of Received fields, which is the number of servers that the message has passed through. */
  hops: number;
  /** One sentence for each problem that was found while reading. */
  unreadable: string[];
}

const LIMITS = { depth: 30, parts: 500 };
/** Maximum size of the header that is read; the rest is ignored. */
const HEADER_BYTES = 256 * 1024;
const SHOWN_HEADER_CHARACTERS = 64 * 1024;
const SHOWN_VALUE_CHARACTERS = 8 * 1024;
const PART_HEADER_BYTES = 16 * 1024;
/** Default limits of text and HTML, decoded. */
const CHARACTERS: TextLimits = { text: 64 * 1024, html: 128 * 1024 };
const LINES_AT_ONCE = 2_000;

/** Maximum numbers of characters of text and of HTML that are read. */
export interface TextLimits {
  text: number;
  html: number;
}

export async function readMail(content: Buffer, limits: TextLimits = CHARACTERS): Promise<ParsedMail> {
  const unreadable: string[] = [];
  const walk = await walkThroughBytes(content);
  if (walk.exceeded === 'depth')
    unreadable.push(`The message has parts nested deeper than ${LIMITS.depth} levels; deeper parts are not read.`);
  if (walk.exceeded === 'parts')
    unreadable.push(`The message has more than ${LIMITS.parts} parts; the others are not read.`);
  const { headers, hops } = readHeaders(content, walk.entities[0]!, unreadable);
  noteMultiparts(walk, unreadable);
  const texts = new Texts(unreadable, limits);
  const files: MailFile[] = [];
  for (const entity of walk.entities) {
    if (entity.kind !== 'leaf') continue;
    await timeSlice();
    const part = partOf(content, entity, unreadable);
    if (part.isText) texts.add(content, part);
    else if (part.to > part.from || part.name !== '') {
      const tnef = isTnefPart(part)
        ? readTnef(await decodeWhole(content.subarray(part.from, part.to), part.encoding))
        : undefined;
      if (tnef) {
        texts.addWrapped(tnef);
        files.push(...filesInTnef(tnef, part, files.length).slice(0, LIMITS.parts - files.length));
        if (!tnef.isPartial) continue;
      }
      const file = await fileOf(content, part, files.length);
      if (isUndecodable(content, part, file.sizeBytes))
        unreadable.push('The content of a file is not valid Base64; the file is empty.');
      files.push(file);
    }
  }
  return { headers, hops, files, unreadable, ...texts.result() };
}

const TNEF_TYPE = /^application\/(vnd\.)?ms-tnef$/;
const isTnefPart = ({ type, name }: Part): boolean => TNEF_TYPE.test(type) || /^winmail\.dat$/i.test(name);

function filesInTnef({ files }: Tnef, { encoding, from, to }: Part, fileCount: number): MailFile[] {
  return files.map(({ name, contentType, contentId, offset, length }, index) => ({
    name: safeName(name) || `attachment-${fileCount + index + 1}`,
    contentType: contentTypeOf(contentType),
    sizeBytes: length,
    contentId,
    encoding,
    from,
    to,
    within: { offset, length },
  }));
}

/** Reports multiparts whose parts cannot be found. */
function noteMultiparts({ entities, exceeded }: MimeWalk, unreadable: string[]): void {
  const parents = new Set(entities.map(({ parent }) => parent));
  for (const entity of entities) {
    if (entity.kind === 'leaf' && entity.type.startsWith('multipart/'))
      unreadable.push('A multipart has no boundary parameter; its parts cannot be found, so it is kept as one file.');
    else if (entity.kind === 'multipart' && !parents.has(entity) && exceeded === undefined)
      unreadable.push('A multipart does not contain its boundary; none of its parts can be read.');
  }
}

/** Finds the parts of a message. Lines end in CRLF; a bare LF is accepted too. */
async function walkThroughBytes(content: Buffer): Promise<MimeWalk> {
  const walk = new MimeWalk({ ...LIMITS, nests: () => false });
  walk.begin(0);
  let at = 0;
  for (let lines = 0; at < content.length && walk.exceeded === undefined; lines += 1) {
    if (lines % LINES_AT_ONCE === 0) await timeSlice();
    const lf = content.indexOf(10, at);
    const next = lf === -1 ? content.length : lf + 1;
    if (walk.wants(content.toString('latin1', at, Math.min(at + 2, next)), 0)) {
      const end = lf === -1 ? next : content[lf - 1] === 13 && lf > at ? lf - 1 : lf;
      walk.line(content.toString('latin1', at, end), at, next);
    }
    at = next;
  }
  walk.end(at);
  return walk;
}

const withLineEnds = (text: string): string => text.replace(/(?<!\r)\n/g, '\r\n');

const NOT_PRINTABLE = /[^\t\x20-\uffff]/g;

function readHeaders(
  content: Buffer,
  { bodyStart }: Entity,
  unreadable: string[],
): Pick<ParsedMail, 'headers' | 'hops'> {
  const end = Math.min(bodyStart, content.length);
  const text = withLineEnds(content.toString('latin1', 0, Math.min(end, HEADER_BYTES)));
  const fields = headerFields(text).filter(({ name }) => name !== '');
  const headers: MailHeader[] = [];
  let remaining = SHOWN_HEADER_CHARACTERS;
  for (const field of fields) {
    const value = displayedText(fieldValue(text, field))
      .replace(NOT_PRINTABLE, ' ')
      .slice(0, SHOWN_VALUE_CHARACTERS)
      .toWellFormed();
    remaining -= field.name.length + value.length;
    if (remaining < 0) break;
    headers.push({ name: writtenName(text, field), value });
  }
  if (headers.length < fields.length || end > HEADER_BYTES)
    unreadable.push(`The header has ${end} bytes; only its first ${headers.length} fields are read.`);
  return { headers, hops: fields.filter(({ name }) => name === 'received').length };
}

interface Part {
  isText: boolean;
  type: string;
  charset: string | undefined;
  /** Whether the part has `format=flowed` (RFC 3676). */
  isFlowed: boolean;
  /** Whether the part has `DelSp=yes` (RFC 3676). */
  delSp: boolean;
  /** Empty if it has none. */
  name: string;
  contentId: string | null;
  encoding: TransferEncoding;
  from: number;
  to: number;
}

const isYes = (parameters: readonly FieldParameter[], name: string, value: string): boolean =>
  parameterValue(parameters, name)?.trim().toLowerCase() === value;

/** Reads the header of a part. */
function partOf(content: Buffer, entity: Entity, unreadable: string[]): Part {
  const from = Math.min(entity.bodyStart, content.length);
  // The walk assumes that the line end before a delimiter is CRLF.
  const { bodyEnd } = entity;
  const isBareLf = content[bodyEnd] !== 13 && content[bodyEnd + 1] === 10;
  const to = Math.max(from, Math.min(isBareLf ? bodyEnd + 1 : bodyEnd, content.length));
  const text = withLineEnds(
    content.toString('latin1', entity.headerStart, Math.min(from, entity.headerStart + PART_HEADER_BYTES)),
  );
  const fields = headerFields(text);
  const fieldOf = (name: string): string | undefined => {
    const field = fields.find((one: HeaderField) => one.name === name);
    return field && fieldValue(text, field);
  };
  const type = parameterizedValue(fieldOf('content-type') ?? '');
  const disposition = parameterizedValue(fieldOf('content-disposition') ?? '');
  // An empty name is no name.
  const written =
    writtenFileName(disposition.parameters, 'filename') || writtenFileName(type.parameters, 'name') || undefined;
  const encoding = transferEncodingOf(entity.encoding);
  if (encoding === undefined)
    unreadable.push(
      `The transfer encoding ${quoted(entity.encoding)} of a part is unknown; its content is kept unchanged.`,
    );
  const part: Part = {
    isText: /^text\/(plain|html)$/.test(entity.type) && disposition.main !== 'attachment' && written === undefined,
    type: entity.type,
    charset: parameterValue(type.parameters, 'charset'),
    isFlowed: isYes(type.parameters, 'format', 'flowed'),
    delSp: isYes(type.parameters, 'delsp', 'yes'),
    name: safeName(written ?? ''),
    contentId: fieldOf('content-id')?.replace(/^<|>$/g, '').slice(0, 200) ?? null,
    encoding: encoding ?? 'identity',
    from,
    to,
  };
  if (!part.isText && part.name === '' && to > from) part.name = impliedName(content, part);
  return part;
}

/** Returns a name for a part without one: the subject of an attached message, or the usual file name of a calendar or signature. */
function impliedName(content: Buffer, { type, encoding, from, to }: Part): string {
  if (type !== 'message/rfc822') return usualName(type);
  const end = Math.min(to, from + encodedLength(PART_HEADER_BYTES, encoding));
  const text = withLineEnds(decodeTransfer(content.subarray(from, end), encoding).toString('latin1'));
  const header = text.slice(0, text.indexOf('\r\n\r\n') + 1 || undefined);
  const subject = headerFields(header).find(({ name }) => name === 'subject');
  return subject ? nameOfText(displayedText(fieldValue(header, subject)), '.eml') : '';
}

/** Number of encoded bytes that are searched for content. */
const INSPECTED_BYTES = 64 * 1024;

/** Returns whether decoding nonempty content yields nothing. */
function isUndecodable(content: Buffer, { encoding, from, to }: Part, decodedBytes: number): boolean {
  if (encoding !== 'base64' || decodedBytes > 0) return false;
  return content.subarray(from, Math.min(to, from + INSPECTED_BYTES)).some((byte) => byte > 0x20);
}

async function fileOf(content: Buffer, part: Part, index: number): Promise<MailFile> {
  const { encoding, from, to, contentId } = part;
  const sizeBytes = await decodedSize(content.subarray(from, to), encoding);
  const name = part.name || `attachment-${index + 1}${part.type === 'message/rfc822' ? '.eml' : ''}`;
  return { name, contentType: contentTypeOf(part.type), sizeBytes, contentId, encoding, from, to };
}

const contentTypeOf = (type: string): string =>
  /^[\w.+-]+\/[\w.+-]+$/.test(type) ? type.slice(0, 100) : 'application/octet-stream';

interface KeptText {
  text: string;
  found: boolean;
  truncated: boolean;
}

/** The text and the HTML of a message, each joined from its parts in order. */
class Texts {
  readonly #unreadable: string[];
  readonly #limits: TextLimits;
  readonly #plain: KeptText = { text: '', found: false, truncated: false };
  readonly #html: KeptText = { text: '', found: false, truncated: false };
  /** Text of the first winmail.dat, for a message without its own text. */
  #wrapped: Tnef | undefined;

  constructor(unreadable: string[], limits: TextLimits) {
    this.#unreadable = unreadable;
    this.#limits = limits;
  }

  add(content: Buffer, part: Part): void {
    const isHtml = part.type === 'text/html';
    const [kept, limit] = isHtml ? [this.#html, this.#limits.html] : [this.#plain, this.#limits.text];
    // A character has at most four bytes.
    const wanted = (limit - kept.text.length) * 4;
    const end = Math.min(part.to, part.from + encodedLength(wanted, part.encoding));
    const bytes = decodeTransfer(content.subarray(part.from, end), part.encoding);
    if (isUndecodable(content, part, bytes.length))
      this.#unreadable.push('The content of a text part is not valid Base64; the text is empty.');
    const { text, unknownCharset } = decodeText(bytes, { charset: part.charset, isHtml, isCut: end < part.to });
    if (unknownCharset !== undefined)
      this.#unreadable.push(
        `The charset ${quoted(unknownCharset)} of a text is unknown; it is read as UTF-8 or Windows-1252.`,
      );
    this.#append(kept, part.isFlowed && !isHtml ? unflowed(text, part) : text, limit);
    kept.truncated ||= end < part.to;
  }

  /** Adds the text of a winmail.dat, which is used only if the message has no text. */
  addWrapped(tnef: Tnef): void {
    this.#wrapped ??= tnef;
  }

  #append(kept: KeptText, text: string, limit: number): void {
    const separator = kept.text === '' || kept.text.endsWith('\n') ? '' : '\n';
    const all = kept.text + separator + text.replaceAll('\0', '\ufffd');
    kept.found = true;
    kept.truncated ||= all.length > limit;
    kept.text = all.slice(0, limit).toWellFormed();
  }

  result(): Pick<ParsedMail, 'text' | 'html' | 'textFromHtml' | 'textTruncated' | 'htmlTruncated'> {
    const [plain, html] = [this.#plain, this.#html];
    if (this.#wrapped && plain.text.trim() === '' && html.text.trim() === '') {
      const { text: wrappedText, html: wrappedHtml } = this.#wrapped;
      if (wrappedText !== null) this.#append(plain, wrappedText, this.#limits.text);
      if (wrappedHtml !== null) this.#append(html, wrappedHtml, this.#limits.html);
    }
    const derived =
      !plain.found && html.found ? htmlToText(html.text).slice(0, this.#limits.text).toWellFormed() : null;
    return {
      text: plain.found ? plain.text : derived,
      html: html.found ? html.text : null,
      textFromHtml: derived !== null,
      textTruncated: plain.found ? plain.truncated : html.truncated,
      htmlTruncated: html.truncated,
    };
  }
}

function quoted(text: string): string {
  return `“${text.replace(/[^\x20-\x7e]/g, '?').slice(0, 40)}”`;
}

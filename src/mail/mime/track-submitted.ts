/**
 * Adds tracking to messages that were composed elsewhere. HTML parts get the links and the pixel of track-html.ts, in their own charset and
 * transfer encoding, and every other byte of the message stays as submitted. The message is read once for any number of copies; each copy
 * is linear in its bytes.
 *
 * Tracking is not added to the following: signed or encrypted messages (multipart/signed, multipart/encrypted, S/MIME), messages inside the
 * message, HTML files (Content-Disposition), parts with a digest (Content-MD5), and parts whose charset or encoding cannot be read reliably
 * (unknown encodings and invalid Base64). A part whose lines would exceed 998 bytes becomes quoted-printable, or Base64 if that is clearly
 * shorter, with a matching Content-Transfer-Encoding.
 *
 * A body is kept both decoded and as written (RFC 2045 §6), so pieces of the decoded bytes can be replaced. In 7bit, 8bit, binary, and
 * quoted-printable, only the changed places are rewritten; Base64 is rewritten completely.
 */
import { encodeBase64, encodeTextBytes, hasLongLine } from '../compose/transfer-encoding.ts';
import {
  type HtmlTracking,
  type MarkupView,
  readTrackable,
  type TrackableHtml,
  trackingEdits,
  viewMarkup,
} from '../html/track-html.ts';
import { fieldValue, type HeaderField, headerFields } from './header-fields.ts';
import { type Entity, isIdentity, parameterizedValue, parameterValue, walkThrough } from './mime-walk.ts';

/** A replacement of a piece of the decoded bytes. `bytes` is ASCII if the body is quoted-printable. */
interface ByteEdit {
  start: number;
  end: number;
  bytes: Buffer;
}

interface CodedBody {
  /** The decoded body. */
  bytes: Buffer;
  /** Returns the body with the edits, which are in order and do not overlap. */
  edited(edits: readonly ByteEdit[]): EditedBody;
}

interface EditedBody {
  body: Buffer;
  /** The new encoding for the header. */
  encoding?: string;
}

/** Characters on a line of quoted-printable, without the `=` of a soft break. */
const QP_COLUMNS = 75;
const QP_LINE = 76;
const SOFT_BREAK = '=\r\n';
const EQUALS = 61;
const LF = 10;
const CR = 13;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Reads a body; undefined if its encoding is unknown or invalid. `raw` is the body as in the message, `encoding` is in lower case. */
function readCodedBody(raw: Buffer, encoding: string): CodedBody | undefined {
  if (isIdentity(encoding)) return identityBody(raw);
  if (encoding === 'quoted-printable') return quotedPrintableBody(raw);
  return encoding === 'base64' ? base64Body(raw) : undefined;
}

function spliced(bytes: Buffer, edits: readonly ByteEdit[]): Buffer {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const edit of edits) {
    pieces.push(bytes.subarray(at, edit.start), edit.bytes);
    at = edit.end;
  }
  pieces.push(bytes.subarray(at));
  return Buffer.concat(pieces);
}

function identityBody(raw: Buffer): CodedBody {
  return {
    bytes: raw,
    edited: (edits) => {
      const body = spliced(raw, edits);
      if (!hasLongLine(body.toString('latin1'))) return { body };
      const { data, encoding } = encodeTextBytes(body);
      return { body: withoutLastLineEnd(data), encoding };
    },
  };
}

function withoutLastLineEnd(lines: Buffer): Buffer {
  return lines.toString('latin1', lines.length - 2) === '\r\n' ? lines.subarray(0, -2) : lines;
}

function base64Body(raw: Buffer): CodedBody | undefined {
  const text = raw.toString('latin1');
  const written = text.replace(/[ \t\r\n]+/g, '');
  if (written.length % 4 !== 0 || !BASE64.test(written)) return undefined;
  const bytes = Buffer.from(written, 'base64');
  const trailingSpace = text.slice(text.trimEnd().length);
  return {
    bytes,
    edited: (edits) => {
      const lines = withoutLastLineEnd(encodeBase64(spliced(bytes, edits)).data);
      return { body: Buffer.concat([lines, Buffer.from(trailingSpace, 'latin1')]) };
    },
  };
}

interface DecodedBytes {
  bytes: Buffer;
  /** Position of each byte in the encoded body. */
  places: Uint32Array;
}

function hexValue(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Returns the index after the spaces and tabs that start at `at`. */
function skipSpaces(raw: Buffer, at: number): number {
  let end = at;
  while (raw[end] === 32 || raw[end] === 9) end += 1;
  return end;
}

/** Decodes quoted-printable (RFC 2045 §6.7). Soft breaks and white space at the end of a line are removed; an invalid `=` is literal. */
export function decodeQuotedPrintable(raw: Buffer): DecodedBytes {
  const bytes = Buffer.allocUnsafeSlow(raw.length);
  const places = new Uint32Array(raw.length);
  let length = 0;
  // A run of spaces is searched once, because a search from each space would take quadratic time.
  let blankEnd = 0;
  for (let at = 0; at < raw.length; ) {
    const code = raw[at]!;
    let value = code;
    let next = at + 1;
    if (code === EQUALS) {
      const high = hexValue(raw[at + 1]);
      const low = hexValue(raw[at + 2]);
      const end = skipSpaces(raw, at + 1);
      if (high >= 0 && low >= 0) {
        value = high * 16 + low;
        next = at + 3;
      } else if (end === raw.length || (raw[end] === CR && raw[end + 1] === LF)) {
        at = Math.min(raw.length, end + 2);
        continue;
      }
    } else if (code === 32 || code === 9) {
      if (at >= blankEnd) blankEnd = skipSpaces(raw, at);
      if (blankEnd === raw.length || raw[blankEnd] === CR) {
        at = blankEnd;
        continue;
      }
    }
    bytes[length] = value;
    places[length] = at;
    length += 1;
    at = next;
  }
  return { bytes: bytes.subarray(0, length), places: places.subarray(0, length) };
}

function quotedPrintableBody(raw: Buffer): CodedBody {
  const { bytes, places } = decodeQuotedPrintable(raw);
  /** Returns where the decoded bytes before `index` end in the encoded body. */
  const encodedEnd = (index: number): number => {
    if (index === 0) return 0;
    const at = places[index - 1]!;
    const isTriplet = raw[at] === EQUALS && hexValue(raw[at + 1]) >= 0 && hexValue(raw[at + 2]) >= 0;
    return isTriplet ? at + 3 : at + 1;
  };
  return {
    bytes,
    edited: (edits) => {
      const out = new QuotedPrintableLines();
      let at = 0;
      for (const edit of edits) {
        const start = encodedEnd(edit.start);
        const last = edit.start > 0 ? Math.max(at, places[edit.start - 1]!) : start;
        out.copy(raw.toString('latin1', at, last));
        // The text before the edit may be moved to a new line.
        out.write(raw.toString('latin1', last, start) + quotedPrintable(edit.bytes));
        at = Math.max(start, encodedEnd(edit.end));
        out.continueWith(restOfLine(raw, at));
      }
      out.copy(raw.toString('latin1', at));
      return { body: Buffer.from(out.text(), 'latin1') };
    },
  };
}

function restOfLine(raw: Buffer, at: number): number {
  const end = raw.indexOf('\r\n', at);
  return (end === -1 ? raw.length : end) - at;
}

/** Encodes bytes without line breaks. */
function quotedPrintable(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replace(/[^ -<>-~]/g, (one) => `=${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

/** Writes quoted-printable, keeping track of the column. */
class QuotedPrintableLines {
  readonly #pieces: string[] = [];
  #column = 0;

  /** Copies text that is already encoded, with its own line breaks. */
  copy(text: string): void {
    if (text === '') return;
    this.#pieces.push(text);
    const lineEnd = text.lastIndexOf('\n');
    this.#column = lineEnd === -1 ? this.#column + text.length : text.length - lineEnd - 1;
  }

  /** Writes characters and triplets, with soft breaks in full lines; a line end may occur only at the start. */
  write(text: string): void {
    let at = text.startsWith('\n') ? 1 : 0;
    if (at === 1) this.copy('\n');
    while (at < text.length) {
      const end = endOfLine(text, at, QP_COLUMNS - this.#column);
      if (end > at) this.copy(text.slice(at, end));
      else if (this.#column === 0) return;
      at = end;
      if (at < text.length) this.copy(SOFT_BREAK);
    }
  }

  /** Starts a new line if the next copied text, with this many characters on its first line, would not fit. */
  continueWith(length: number): void {
    if (length > 0 && this.#column + length > QP_LINE) this.copy(SOFT_BREAK);
  }

  text(): string {
    return this.#pieces.join('');
  }
}

/** Returns the end of the text that fits into this many columns from `at` on, without cutting a triplet. */
function endOfLine(text: string, at: number, columns: number): number {
  if (text.length - at <= columns) return text.length;
  const end = Math.max(at, at + columns);
  for (const one of [end - 2, end - 1]) if (one >= at && text[one] === '=') return one;
  return end;
}

export interface TrackableMail {
  /** Number of trackable links in all parts. */
  links: number;
  /** Returns the message with this tracking, or the submitted bytes themselves if nothing changes. */
  copy(tracking: HtmlTracking): Buffer;
}

interface HtmlPart {
  entity: Entity;
  /** The end of the body, without the message's final line end. */
  bodyEnd: number;
  body: CodedBody;
  html: MarkupView;
  found: TrackableHtml;
}

/** The same limits apply to submitted messages (submitted.ts). */
const LIMITS = { depth: 100, parts: 1000 };
const SIGNED_OR_ENCRYPTED = new Set([
  'multipart/signed',
  'multipart/encrypted',
  'application/pkcs7-mime',
  'application/x-pkcs7-mime',
]);

/**
 * Reads a complete message with CRLF line ends. `links` is whether to track links. Returns undefined if nothing in the message can be
 * tracked.
 */
export function readTrackableMail(content: Buffer, { links }: { links: boolean }): TrackableMail | undefined {
  const walk = walkThrough(content.toString('latin1'), LIMITS);
  const entities = walk.entities.filter((entity) => !isInsideMessage(entity));
  if (walk.exceeded !== undefined || entities.some(({ type }) => SIGNED_OR_ENCRYPTED.has(type))) return undefined;
  const parts = entities.flatMap((entity) => htmlPartOf(content, entity, links) ?? []);
  if (parts.length === 0) return undefined;
  return {
    links: parts.reduce((sum, part) => sum + part.found.links.length, 0),
    copy: (tracking) => trackedCopy(content, parts, tracking),
  };
}

function isInsideMessage(entity: Entity): boolean {
  for (let parent = entity.parent; parent; parent = parent.parent) if (parent.kind === 'message') return true;
  return false;
}

function htmlPartOf(content: Buffer, entity: Entity, links: boolean): HtmlPart | undefined {
  if (entity.kind !== 'leaf' || entity.type !== 'text/html') return undefined;
  const header = content.toString('latin1', entity.headerStart, entity.bodyStart);
  const fields = headerFields(header);
  const value = (name: string): string => {
    const field = fields.find((one) => one.name === name);
    return field === undefined ? '' : fieldValue(header, field);
  };
  const disposition = parameterizedValue(value('content-disposition'));
  const isFile = disposition.main === 'attachment' || parameterValue(disposition.parameters, 'filename') !== undefined;
  if (isFile || fields.some((one) => one.name === 'content-md5')) return undefined;

  let { bodyEnd } = entity;
  // A pixel after the message's final line end would be on a line without a line end.
  if (bodyEnd === content.length && content.toString('latin1', bodyEnd - 2) === '\r\n') bodyEnd -= 2;
  if (bodyEnd < entity.bodyStart) return undefined;
  const body = readCodedBody(content.subarray(entity.bodyStart, bodyEnd), entity.encoding);
  if (body === undefined) return undefined;
  const charset = parameterValue(parameterizedValue(value('content-type')).parameters, 'charset') ?? '';
  const html = viewMarkup(body.bytes, charset);
  if (html === undefined) return undefined;
  return { entity, bodyEnd, body, html, found: readTrackable(html.text, { links, written: html.written }) };
}

function trackedCopy(content: Buffer, parts: readonly HtmlPart[], tracking: HtmlTracking): Buffer {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const { entity, bodyEnd, body, html, found } of parts) {
    const edits: ByteEdit[] = trackingEdits(found, tracking).map(({ start, end, text }) => ({
      start: start * html.unitBytes,
      end: end * html.unitBytes,
      bytes: html.encode(text),
    }));
    if (edits.length === 0) continue;
    const edited = body.edited(edits);
    if (edited.encoding === undefined) pieces.push(content.subarray(at, entity.bodyStart));
    else {
      const header = content.subarray(entity.headerStart, entity.bodyStart);
      pieces.push(content.subarray(at, entity.headerStart), withEncoding(header, edited.encoding, entity));
    }
    pieces.push(edited.body);
    at = bodyEnd;
  }
  if (pieces.length === 0) return content;
  pieces.push(content.subarray(at));
  return Buffer.concat(pieces);
}

/** Returns the header of a part (with its empty line) with another transfer encoding and its other fields unchanged. */
function withEncoding(header: Buffer, encoding: string, entity: Entity): Buffer {
  const text = header.toString('latin1');
  const fields = headerFields(text.slice(0, -2));
  const line = `Content-Transfer-Encoding: ${encoding}\r\n`;
  const named = fields.filter((field) => field.name === 'content-transfer-encoding');
  let out = '';
  let at = 0;
  for (const field of named) {
    out += text.slice(at, field.start) + (field === named[0] ? line : '');
    at = field.end;
  }
  const end = text.length - 2;
  out += text.slice(at, end);
  if (named.length === 0) out += line;
  // Without MIME-Version, readers may ignore the encoding (RFC 2045 §4).
  if (entity.parent === undefined && !has(fields, 'mime-version')) out += 'MIME-Version: 1.0\r\n';
  return Buffer.from(out + text.slice(end), 'latin1');
}

function has(fields: readonly HeaderField[], name: string): boolean {
  return fields.some((field) => field.name === name);
}

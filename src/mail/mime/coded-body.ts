/**
 * The body of one MIME leaf as what it says and as it is written (RFC 2045 §6), so that pieces of what it says can be replaced. Of
 * 7bit, 8bit, binary and quoted-printable only the places that change are written again; Base64 is, as a whole. A body whose
 * lines would become longer than mail may have (RFC 5321 §4.5.3.1.6) gets another encoding, and says which.
 *
 * Bodies in an encoding that is not known, or in Base64 that does not read for certain, are refused.
 */

import { encodeBase64, encodeTextBytes, hasLongLine } from '../compose/transfer-encoding.ts';
import { isIdentity } from './mime-walk.ts';

/** What comes in place of a piece of the decoded bytes; ASCII where the body is quoted-printable. */
export interface ByteEdit {
  start: number;
  end: number;
  bytes: Buffer;
}

export interface CodedBody {
  /** Decoded. */
  bytes: Buffer;
  /** The body with the edits, which come in their order and do not overlap. */
  edited(edits: readonly ByteEdit[]): EditedBody;
}

export interface EditedBody {
  body: Buffer;
  /** To be named in the header in place of the former one. */
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

/** `raw` is the body as it stands in the mail, `encoding` in lower case. */
export function readCodedBody(raw: Buffer, encoding: string): CodedBody | undefined {
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
  const behind = /[ \t\r\n]*$/.exec(text)![0];
  return {
    bytes,
    edited: (edits) => {
      const lines = withoutLastLineEnd(encodeBase64(spliced(bytes, edits)).data);
      return { body: Buffer.concat([lines, Buffer.from(behind, 'latin1')]) };
    },
  };
}

interface Decoded {
  bytes: Buffer;
  /** Where in the encoded body each byte is written. */
  places: Uint32Array;
}

function hexValue(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Index behind the spaces and tabs from `at` on. */
function behindSpaces(raw: Buffer, at: number): number {
  let end = at;
  while (raw[end] === 32 || raw[end] === 9) end += 1;
  return end;
}

/** RFC 2045 §6.7: soft breaks and the white space at the end of a line are nothing; an `=` that means nothing is itself. */
function decodeQuotedPrintable(raw: Buffer): Decoded {
  const bytes = Buffer.allocUnsafeSlow(raw.length);
  const places = new Uint32Array(raw.length);
  let length = 0;
  for (let at = 0; at < raw.length; ) {
    const code = raw[at]!;
    let value = code;
    let next = at + 1;
    if (code === EQUALS) {
      const high = hexValue(raw[at + 1]);
      const low = hexValue(raw[at + 2]);
      const end = behindSpaces(raw, at + 1);
      if (high >= 0 && low >= 0) {
        value = high * 16 + low;
        next = at + 3;
      } else if (end === raw.length || (raw[end] === CR && raw[end + 1] === LF)) {
        at = Math.min(raw.length, end + 2);
        continue;
      }
    } else if (code === 32 || code === 9) {
      const end = behindSpaces(raw, at);
      if (end === raw.length || raw[end] === CR) {
        at = end;
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
  /** Where in the encoded body the decoded bytes before `index` end. */
  const behind = (index: number): number => {
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
        const start = behind(edit.start);
        const last = edit.start > 0 ? Math.max(at, places[edit.start - 1]!) : start;
        out.copy(raw.toString('latin1', at, last));
        // What stands before the edit is the first that may go to a new line.
        out.write(raw.toString('latin1', last, start) + quotedPrintable(edit.bytes));
        at = Math.max(start, behind(edit.end));
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

/** Without line breaks of its own. */
function quotedPrintable(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replace(/[^ -<>-~]/g, (one) => `=${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

/** Quoted-printable as it is written, with the column that the next character would stand in. */
class QuotedPrintableLines {
  readonly #pieces: string[] = [];
  #column = 0;

  /** What is written already, with its own line breaks. */
  copy(text: string): void {
    if (text === '') return;
    this.#pieces.push(text);
    const lineEnd = text.lastIndexOf('\n');
    this.#column = lineEnd === -1 ? this.#column + text.length : text.length - lineEnd - 1;
  }

  /** Characters and triplets, with soft breaks where lines are full; a line end may stand at the beginning only. */
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

  /** What is copied next has so many characters on its first line. */
  continueWith(length: number): void {
    if (length > 0 && this.#column + length > QP_LINE) this.copy(SOFT_BREAK);
  }

  text(): string {
    return this.#pieces.join('');
  }
}

/** The end of what fits into so many columns from `at` on, without cutting a triplet. */
function endOfLine(text: string, at: number, columns: number): number {
  if (text.length - at <= columns) return text.length;
  const end = Math.max(at, at + columns);
  for (const one of [end - 2, end - 1]) if (one >= at && text[one] === '=') return one;
  return end;
}

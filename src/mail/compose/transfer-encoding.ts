/**
 * Content-Transfer-Encoding of bodies and files (RFC 2045 §6): 7bit if the text allows it, else quoted-printable, else Base64 if that is
 * clearly shorter. Encoded text has CRLF line ends, no NUL, no line over 998 bytes, and no byte above 127; Base64 files have lines of 76
 * characters, each with its CRLF.
 */

export type TransferEncoding = '7bit' | 'quoted-printable' | 'base64';

export interface EncodedText {
  encoding: TransferEncoding;
  /** ASCII only. Unless it is a string, a view of memory that the next call may overwrite. */
  data: string | Uint8Array;
}

const MAX_LINE_BYTES = 998;
/** Raw bytes that make one line of 76 characters. */
export const BASE64_LINE_RAW_BYTES = 57;
/** How much longer quoted-printable may be than Base64: filters and people prefer readable text. */
const READABLE_BYTES = 64;
/** Characters on a line of quoted-printable, without the `=` of a soft break. */
const QP_COLUMNS = 75;
/** How far one step of the encoder may exceed its limit before it stops: a line and two triplets, rounded up. */
const SLACK_BYTES = 128;
const LF = 10;
const CR = 13;
const CRLF = 0x0d0a;
const EQUALS = 61;

/** Bytes that are literal in quoted-printable. So are space and tab, except at the end of a line. */
const QP_SAFE = new Uint8Array(256);
for (let i = 32; i < 127; i += 1) QP_SAFE[i] = 1;
QP_SAFE[9] = 1;
QP_SAFE[EQUALS] = 0;
const HEX = Buffer.from('0123456789ABCDEF', 'latin1');

/** Returns the size of `rawBytes` bytes in Base64, with line breaks, as `writeBase64` writes them. */
export function base64SizeBytes(rawBytes: number): number {
  const characters = Math.ceil(rawBytes / 3) * 4;
  return characters + 2 * Math.ceil(characters / 76);
}

/** Complete Base64 lines with their CRLF: 7-bit, without spaces, and none starts with a dot. */
export interface Base64Lines {
  base64: Buffer;
}

/** Raw bytes encoded per step: complete lines, and few enough to keep intermediate strings small. */
const BASE64_STEP = BASE64_LINE_RAW_BYTES * 512;

/**
 * Writes `raw` as Base64 lines into `target` at `offset`; returns the offset after it (`base64SizeBytes` further). Input in several calls
 * must be split at multiples of `BASE64_LINE_RAW_BYTES`.
 */
export function writeBase64(raw: Uint8Array, target: Buffer, offset: number): number {
  const source = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  let to = offset;
  for (let start = 0; start < source.length; start += BASE64_STEP) {
    const text = source.toString('base64', start, Math.min(start + BASE64_STEP, source.length));
    // The text is written so that its last line is in place; the other lines are then moved forward over the gaps.
    let from = to + 2 * Math.ceil(text.length / 76);
    const end = from + text.length;
    target.write(text, from, 'latin1');
    for (; end - from >= 76; from += 76, to += 78) moveLine(view, from, to);
    if (from === end) continue;
    target.copyWithin(to, from, end);
    to += end - from;
    view.setUint16(to, CRLF);
    to += 2;
  }
  return to;
}

/**
 * Moves 76 characters forward and appends CRLF: nine words of eight bytes and one of four. They are moved as floating-point numbers, which
 * allocate nothing: ASCII is never a NaN, whose bits could change.
 */
function moveLine(view: DataView, from: number, to: number): void {
  for (let i = 0; i < 72; i += 8) view.setFloat64(to + i, view.getFloat64(from + i, true), true);
  view.setUint32(to + 72, view.getUint32(from + 72, true), true);
  view.setUint16(to + 76, CRLF);
}

/** Converts line ends of any kind to CRLF. */
export function normalizeLineEnds(text: string): string {
  if (text.includes('\r')) return text.replace(/\r\n|\r|\n/g, '\r\n');
  return text.includes('\n') ? text.replaceAll('\n', '\r\n') : text;
}

/** Returns whether a line of the text (CRLF line ends) is longer than 998. Checks one line end in every 1,000 characters. */
export function hasLongLine(text: string): boolean {
  let lineStart = 0;
  while (text.length - lineStart > MAX_LINE_BYTES) {
    const end = text.lastIndexOf('\n', lineStart + MAX_LINE_BYTES + 1);
    if (end < lineStart) return true;
    lineStart = end + 1;
  }
  return false;
}

/** Returns whether bytes can be sent unchanged: ASCII, CRLF line ends only, no NUL, no line over 998 (RFC 2045 §2.7). */
export function isSevenBit(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('latin1');
  if (Buffer.byteLength(text, 'utf8') !== text.length) return false;
  return !text.includes('\0') && !/\r(?!\n)|(?<!\r)\n/.test(text) && !hasLongLine(text);
}

// One shared scratch buffer: the functions here are synchronous, and compose copies the result before it encodes again.
const SCRATCH_BYTES = 256 * 1024;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
let scratchUsed = 0;

/** Invalidates the views returned so far; call it before encoding the bodies of the next mail. */
export function resetScratch(): void {
  scratchUsed = 0;
}

function takeScratch(sizeBytes: number): Buffer {
  if (scratchUsed + sizeBytes > SCRATCH_BYTES) return Buffer.allocUnsafeSlow(sizeBytes);
  const view = scratch.subarray(scratchUsed, scratchUsed + sizeBytes);
  scratchUsed += sizeBytes;
  return view;
}

/**
 * Encodes a text body. A text with a line that starts with `From ` is never 7bit: mailbox files would change it and break the signature.
 */
export function encodeText(text: string): EncodedText {
  const normal = normalizeLineEnds(text);
  const utf8Bytes = Buffer.byteLength(normal, 'utf8');
  if (utf8Bytes === normal.length && !hasLongLine(normal) && !normal.includes('\0') && !hasFromLine(normal)) {
    return { encoding: '7bit', data: normal };
  }
  const source = takeScratch(utf8Bytes);
  source.write(normal, 0, 'utf8');
  return encodeReadable(source, takeScratch);
}

/** Returns quoted-printable, or Base64 if that is clearly shorter; `source` has CRLF line ends only. */
function encodeReadable(source: Buffer, take: (sizeBytes: number) => Buffer): EncodedBytes {
  const base64Bytes = base64SizeBytes(source.length);
  const limit = base64Bytes + READABLE_BYTES;
  const target = take(limit + SLACK_BYTES);
  const written = writeQuotedPrintable(source, source.length, target, limit);
  if (written >= 0) return { encoding: 'quoted-printable', data: target.subarray(0, written) };
  const base64 = take(base64Bytes);
  writeBase64(source, base64, 0);
  return { encoding: 'base64', data: base64 };
}

export interface EncodedBytes {
  encoding: 'quoted-printable' | 'base64';
  /** ASCII only. */
  data: Buffer;
}

/** Returns bytes of any charset as readable text if that costs little; line ends are CRLF. The result has its own memory. */
export function encodeTextBytes(bytes: Buffer): EncodedBytes {
  return encodeReadable(bytes, Buffer.allocUnsafeSlow);
}

/** Returns bytes as Base64 lines. The result has its own memory. */
export function encodeBase64(bytes: Buffer): EncodedBytes {
  const data = Buffer.allocUnsafeSlow(base64SizeBytes(bytes.length));
  writeBase64(bytes, data, 0);
  return { encoding: 'base64', data };
}

function hasFromLine(text: string): boolean {
  return text.startsWith('From ') || text.includes('\nFrom ');
}

/** Returns whether a line that starts at `at` begins with `From `. */
function isFromLine(source: Uint8Array, at: number): boolean {
  if (source[at] !== 70) return false;
  return source[at + 1] === 114 && source[at + 2] === 111 && source[at + 3] === 109 && source[at + 4] === 32;
}

function writeTriplet(byte: number, target: Uint8Array, at: number): number {
  target[at] = EQUALS;
  target[at + 1] = HEX[byte >> 4]!;
  target[at + 2] = HEX[byte & 15]!;
  return at + 3;
}

function writeSoftBreak(target: Uint8Array, at: number): number {
  target[at] = EQUALS;
  target[at + 1] = CR;
  target[at + 2] = LF;
  return at + 3;
}

/**
 * Writes `length` bytes with CRLF line ends as quoted-printable (RFC 2045 §6.7), in lines of at most 76. Returns the bytes written, or -1
 * as soon as they exceed `limit`; `target` has `SLACK_BYTES` more. Literal bytes are copied in runs.
 */
function writeQuotedPrintable(source: Uint8Array, length: number, target: Uint8Array, limit: number): number {
  let to = 0;
  let column = 0;
  let i = 0;
  while (to <= limit) {
    if (column === 0 && isFromLine(source, i)) {
      to = writeTriplet(source[i]!, target, to);
      column = 3;
      i += 1;
    }
    const start = i;
    const stop = Math.min(length, i + QP_COLUMNS - column);
    while (i < stop && QP_SAFE[source[i]!] === 1) {
      target[to] = source[i]!;
      to += 1;
      i += 1;
    }
    column += i - start;
    const byte = i < length ? source[i]! : CR;
    if (byte === CR) {
      // A trailing space on a line would be stripped in transit.
      const last = column > 0 ? source[i - 1]! : 0;
      if (last === 32 || last === 9) {
        to -= 1;
        if (column - 1 + 3 > QP_COLUMNS) to = writeSoftBreak(target, to);
        to = writeTriplet(last, target, to);
      }
      if (i >= length) break;
      target[to] = CR;
      target[to + 1] = LF;
      to += 2;
      column = 0;
      i += 2;
    } else if (column + (QP_SAFE[byte] === 1 ? 1 : 3) > QP_COLUMNS) {
      to = writeSoftBreak(target, to);
      column = 0;
    } else {
      to = writeTriplet(byte, target, to);
      column += 3;
      i += 1;
    }
  }
  return to > limit ? -1 : to;
}

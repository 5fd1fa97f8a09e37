/**
 * Content-Transfer-Encoding of bodies and files (RFC 2045 §6): 7bit where the text allows it, else quoted-printable,
 * else Base64 where that is clearly shorter. Text always leaves with CRLF line ends, without NUL, without a line over 998 bytes and
 * without a byte above 127; files in Base64 leave in lines of 76 characters, each with its CRLF.
 */

export type TransferEncoding = '7bit' | 'quoted-printable' | 'base64';

export interface EncodedText {
  encoding: TransferEncoding;
  /** ASCII only. A view of memory that the next call may overwrite, unless it is a string. */
  data: string | Uint8Array;
}

const MAX_LINE_BYTES = 998;
/** Raw bytes that make one line of 76 characters. */
export const BASE64_LINE_RAW_BYTES = 57;
/** What quoted-printable may cost over Base64: filters and people prefer text that can be read. */
const READABLE_BYTES = 64;
/** Characters on a line of quoted-printable, without the `=` of a soft break. */
const QP_COLUMNS = 75;
/** What one step of the encoder may write beyond its limit before it notices: a line and two triplets, rounded up. */
const SLACK_BYTES = 128;
const LF = 10;
const CR = 13;
const CRLF = 0x0d0a;
const EQUALS = 61;

/** Bytes that stand for themselves in quoted-printable. Space and tab do too, except at the end of a line. */
const QP_SAFE = new Uint8Array(256);
for (let i = 32; i < 127; i += 1) QP_SAFE[i] = 1;
QP_SAFE[9] = 1;
QP_SAFE[EQUALS] = 0;
const HEX = Buffer.from('0123456789ABCDEF', 'latin1');

/** Size in bytes of the Base64 form of `rawBytes` bytes, with line breaks, as `writeBase64` writes it. */
export function base64SizeBytes(rawBytes: number): number {
  const characters = Math.ceil(rawBytes / 3) * 4;
  return characters + 2 * Math.ceil(characters / 76);
}

/** Whole Base64 lines with their CRLF: 7-bit, without a space, and none of them starts with a dot. */
export interface Base64Lines {
  base64: Buffer;
}

/** Raw bytes turned into Base64 at once: a whole number of lines, so that the intermediate strings stay small. */
const BASE64_STEP = BASE64_LINE_RAW_BYTES * 512;

/**
 * Writes `raw` as Base64 lines into `target` at `offset`; returns the offset behind it (`base64SizeBytes` further on). What is
 * given in several calls must be split at multiples of `BASE64_LINE_RAW_BYTES`. Makes 6 GB of lines a second, where copying
 * each line makes 3 and a table of twelve bits 2.
 */
export function writeBase64(raw: Uint8Array, target: Buffer, offset: number): number {
  const source = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  let to = offset;
  for (let start = 0; start < source.length; start += BASE64_STEP) {
    const text = source.toString('base64', start, Math.min(start + BASE64_STEP, source.length));
    // The text is put where its last line will end, and its lines are then moved forward over the gaps.
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
 * Moves 76 characters forward and puts CRLF behind them: nine words of eight bytes and one of four. As floating-point numbers,
 * which cost nothing to make: ASCII is never a NaN, whose bits could change on the way.
 */
function moveLine(view: DataView, from: number, to: number): void {
  for (let i = 0; i < 72; i += 8) view.setFloat64(to + i, view.getFloat64(from + i, true), true);
  view.setUint32(to + 72, view.getUint32(from + 72, true), true);
  view.setUint16(to + 76, CRLF);
}

/** Line ends of any kind as CRLF. */
export function normaliseLineEnds(text: string): string {
  if (text.includes('\r')) return text.replace(/\r\n|\r|\n/g, '\r\n');
  return text.includes('\n') ? text.replaceAll('\n', '\r\n') : text;
}

/** Whether a line of the text (CRLF line ends) is longer than 998. Looks at one line end in every 1000 characters. */
export function hasLongLine(text: string): boolean {
  let lineStart = 0;
  while (text.length - lineStart > MAX_LINE_BYTES) {
    const end = text.lastIndexOf('\n', lineStart + MAX_LINE_BYTES + 1);
    if (end < lineStart) return true;
    lineStart = end + 1;
  }
  return false;
}

/** Whether bytes can travel as they are: ASCII, CRLF line ends only, no NUL, no line over 998 (RFC 2045 §2.7). */
export function isSevenBit(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('latin1');
  if (Buffer.byteLength(text, 'utf8') !== text.length) return false;
  return !text.includes('\0') && !/\r(?!\n)|(?<!\r)\n/.test(text) && !hasLongLine(text);
}

// One scratch for all: the functions here are synchronous, and compose copies the result before it encodes again.
const SCRATCH_BYTES = 256 * 1024;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
let scratchUsed = 0;

/** Forgets the views handed out so far; to be called before the bodies of the next mail are encoded. */
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
 * Encodes a text body. 7bit is kept from texts with a line that starts with `From `, which mailbox files would change and
 * so break the signature.
 */
export function encodeText(text: string): EncodedText {
  const normal = normaliseLineEnds(text);
  const utf8Bytes = Buffer.byteLength(normal, 'utf8');
  if (utf8Bytes === normal.length && !hasLongLine(normal) && !normal.includes('\0') && !hasFromLine(normal)) {
    return { encoding: '7bit', data: normal };
  }
  const source = takeScratch(utf8Bytes);
  source.write(normal, 0, 'utf8');
  return encodeReadable(source, takeScratch);
}

/** Quoted-printable, or Base64 where that is clearly shorter; `source` has CRLF line ends only. */
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

/** Bytes of any charset as text that can be read where that costs little; line ends are CRLF. In memory of its own. */
export function encodeTextBytes(bytes: Buffer): EncodedBytes {
  return encodeReadable(bytes, Buffer.allocUnsafeSlow);
}

/** Bytes as Base64 lines, in memory of its own. */
export function encodeBase64(bytes: Buffer): EncodedBytes {
  const data = Buffer.allocUnsafeSlow(base64SizeBytes(bytes.length));
  writeBase64(bytes, data, 0);
  return { encoding: 'base64', data };
}

function hasFromLine(text: string): boolean {
  return text.startsWith('From ') || text.includes('\nFrom ');
}

/** Whether `From ` stands at `at`, where a line is about to start. */
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
 * Quoted-printable of `length` bytes with CRLF line ends (RFC 2045 §6.7), lines of at most 76. Returns the bytes written, or -1 as
 * soon as they are more than `limit`; `target` has `SLACK_BYTES` beyond it. Literal bytes are copied in runs: 2 KB of html take 3 µs.
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
      // A space at the end of a line or of the text would be stripped on the way.
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

/**
 * Decodes Content-Transfer-Encoding (RFC 2045 §6), in memory or streaming. Accepts what real mail contains: white space, foreign characters
 * and padding in the middle of Base64, invalid escapes in quoted-printable.
 */
import { timeSlice } from '../../base/time-slice.ts';

export type TransferEncoding = 'identity' | 'base64' | 'quoted-printable';

/** Returns undefined if the encoding is unknown. */
export function transferEncodingOf(written: string): TransferEncoding | undefined {
  if (written === 'base64' || written === 'quoted-printable') return written;
  return /^(|7bit|8bit|binary)$/.test(written) ? 'identity' : undefined;
}

/** Returns how many encoded bytes hold at least this many decoded ones, including line ends. */
export function encodedLength(bytes: number, encoding: TransferEncoding): number {
  if (encoding === 'base64') return Math.ceil((bytes * 3) / 2) + 4;
  return encoding === 'quoted-printable' ? bytes * 3 : bytes;
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** The six bits of each character, including those of the URL alphabet; -1 for all others. */
const SIX_BITS = new Int8Array(256).fill(-1);
for (const [value, character] of [...ALPHABET].entries()) SIX_BITS[character.charCodeAt(0)] = value;
SIX_BITS['-'.charCodeAt(0)] = 62;
SIX_BITS['_'.charCodeAt(0)] = 63;
const EQUALS = 61;
/** The value of each hexadecimal digit; NaN for all other characters. */
const HEX = Float64Array.from({ length: 256 }, (_, code) => {
  const character = String.fromCharCode(code);
  return /[0-9A-Fa-f]/.test(character) ? Number.parseInt(character, 16) : Number.NaN;
});
const COUNTED_AT_ONCE = 1024 * 1024;

/** Returns the number of decoded bytes. */
export async function decodedSize(encoded: Buffer, encoding: TransferEncoding): Promise<number> {
  if (encoding === 'identity') return encoded.length;
  let size = 0;
  for await (const chunk of decodeStream(slices(encoded), encoding)) size += chunk.length;
  return size;
}

/** Returns the decoded bytes, yielding to other work. */
export async function decodeWhole(encoded: Buffer, encoding: TransferEncoding): Promise<Buffer> {
  if (encoding === 'identity') return encoded;
  const chunks: Buffer[] = [];
  for await (const chunk of decodeStream(slices(encoded), encoding)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* slices(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += COUNTED_AT_ONCE) {
    yield bytes.subarray(at, at + COUNTED_AT_ONCE);
    await timeSlice();
  }
}

/** Decodes bytes that are completely in memory. */
export function decodeTransfer(encoded: Buffer, encoding: TransferEncoding): Buffer {
  if (encoding === 'base64') return base64Decoder()(encoded);
  if (encoding === 'quoted-printable') return unquoted(encoded.toString('latin1'));
  return encoded;
}

/**
 * Decodes piece by piece. Padding also ends a group in the middle, where separately encoded texts follow each other, such as a footer after
 * a message.
 */
function base64Decoder(): (encoded: Uint8Array) => Buffer {
  let held = 0;
  let bits = 0;
  return (encoded) => {
    const bytes = Buffer.alloc(Math.ceil(((encoded.length + 1) * 3) / 4));
    let length = 0;
    for (let at = 0; at < encoded.length; at += 1) {
      const code = encoded[at]!;
      if (code === EQUALS) bits = 0;
      const value = SIX_BITS[code]!;
      if (value < 0) continue;
      held = ((held << 6) | value) & 0xfff;
      bits += 6;
      if (bits < 8) continue;
      bits -= 8;
      bytes[length++] = held >> bits;
    }
    return bytes.subarray(0, length);
  };
}

/** RFC 2045 §6.7: white space at a line's end is removed; a line that ends with = continues. */
function unquoted(text: string): Buffer {
  const lines = text.replace(/(?<![ \t])[ \t]+(?=\r?\n)/g, '').replace(/=\r?\n/g, '');
  // Byte by byte: calling a function per escape would take seconds for hostile input.
  const bytes = Buffer.from(lines, 'latin1');
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const value = bytes[at] === EQUALS ? HEX[bytes[at + 1]!]! * 16 + HEX[bytes[at + 2]!]! : Number.NaN;
    const isEscape = !Number.isNaN(value);
    bytes[length++] = isEscape ? value : bytes[at]!;
    if (isEscape) at += 2;
  }
  return bytes.subarray(0, length);
}

/** Decodes a stream in bounded memory. */
export async function* decodeStream(source: AsyncIterable<Buffer>, encoding: TransferEncoding): AsyncGenerator<Buffer> {
  const fromBase64 = base64Decoder();
  let rest = '';
  const fromQuotedPrintable = (chunk: Buffer): Buffer => {
    const text = rest + chunk.toString('latin1');
    const whole = wholeLines(text);
    rest = text.slice(whole);
    return unquoted(text.slice(0, whole));
  };
  const decode = { identity: (chunk: Buffer) => chunk, base64: fromBase64, 'quoted-printable': fromQuotedPrintable };
  for await (const chunk of source) {
    const bytes = decode[encoding](chunk);
    if (bytes.length > 0) yield bytes;
  }
  if (rest !== '') yield unquoted(rest);
}

/** A longer line is cut at a place without an escape. */
const LONGEST_LINE = 64 * 1024;

function wholeLines(text: string): number {
  const end = text.lastIndexOf('\n') + 1;
  if (end > 0 || text.length < LONGEST_LINE) return end;
  const escapeAt = text.indexOf('=', text.length - 3);
  return escapeAt === -1 ? text.length : escapeAt;
}

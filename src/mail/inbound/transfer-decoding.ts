/**
 * Content-Transfer-Encoding read back (RFC 2045 §6): of what is in memory, and of a file as it streams. Takes what real mail has:
 * white space and foreign characters in Base64, escapes that are none in quoted-printable.
 */
import { timeSlice } from '../../base/time-slice.ts';

export type TransferEncoding = 'identity' | 'base64' | 'quoted-printable';

/** Undefined for what is not known. */
export function transferEncodingOf(written: string): TransferEncoding | undefined {
  if (written === 'base64' || written === 'quoted-printable') return written;
  return /^(|7bit|8bit|binary)$/.test(written) ? 'identity' : undefined;
}

/** How many encoded bytes hold at least so many decoded ones, line ends included. */
export function encodedLength(bytes: number, encoding: TransferEncoding): number {
  if (encoding === 'base64') return Math.ceil((bytes * 3) / 2) + 4;
  return encoding === 'quoted-printable' ? bytes * 3 : bytes;
}

const IS_BASE64 = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_')
  IS_BASE64[character.charCodeAt(0)] = 1;
const EQUALS = 61;
/** The value of each character that is a hexadecimal digit; NaN for all others. */
const HEX = Float64Array.from({ length: 256 }, (_, code) => {
  const character = String.fromCharCode(code);
  return /[0-9A-Fa-f]/.test(character) ? Number.parseInt(character, 16) : Number.NaN;
});
const COUNTED_AT_ONCE = 1024 * 1024;

function base64Characters(bytes: Uint8Array): number {
  let count = 0;
  for (let i = 0; i < bytes.length; i += 1) count += IS_BASE64[bytes[i]!]!;
  return count;
}

/** Of the decoded bytes. */
export async function decodedSize(encoded: Buffer, encoding: TransferEncoding): Promise<number> {
  if (encoding === 'identity') return encoded.length;
  let size = 0;
  if (encoding === 'base64') {
    for (let at = 0; at < encoded.length; at += COUNTED_AT_ONCE) {
      size += base64Characters(encoded.subarray(at, at + COUNTED_AT_ONCE));
      await timeSlice();
    }
    return Math.floor((size * 3) / 4);
  }
  for await (const chunk of decodeStream(slices(encoded), encoding)) size += chunk.length;
  return size;
}

async function* slices(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += COUNTED_AT_ONCE) {
    yield bytes.subarray(at, at + COUNTED_AT_ONCE);
    await timeSlice();
  }
}

/** Bytes that are in memory as a whole. */
export function decodeTransfer(encoded: Buffer, encoding: TransferEncoding): Buffer {
  if (encoding === 'base64') return Buffer.from(encoded.toString('latin1').replace(/[^A-Za-z0-9+/_-]/g, ''), 'base64');
  if (encoding === 'quoted-printable') return unquoted(encoded.toString('latin1'));
  return encoded;
}

/** RFC 2045 §6.7: white space at a line's end is none of the text's; a line that ends with = goes on. */
function unquoted(text: string): Buffer {
  const lines = text.replace(/(?<![ \t])[ \t]+(?=\r?\n)/g, '').replace(/=\r?\n/g, '');
  // By byte: a function called for each escape made 25 MB of them 3 s of work, which anybody may send.
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

/** Decodes what streams, in bounded memory. */
export async function* decodeStream(source: AsyncIterable<Buffer>, encoding: TransferEncoding): AsyncGenerator<Buffer> {
  let rest = '';
  for await (const chunk of source) {
    if (encoding === 'identity') {
      yield chunk;
      continue;
    }
    const text =
      rest +
      (encoding === 'base64' ? chunk.toString('latin1').replace(/[^A-Za-z0-9+/_-]/g, '') : chunk.toString('latin1'));
    const whole = encoding === 'base64' ? text.length - (text.length % 4) : wholeLines(text);
    rest = text.slice(whole);
    const bytes = encoding === 'base64' ? Buffer.from(text.slice(0, whole), 'base64') : unquoted(text.slice(0, whole));
    if (bytes.length > 0) yield bytes;
  }
  if (rest !== '') yield encoding === 'base64' ? Buffer.from(rest, 'base64') : unquoted(rest);
}

/** Lines may be long where a sender does not care; then the text is cut where no escape is. */
const LONGEST_LINE = 64 * 1024;

function wholeLines(text: string): number {
  const end = text.lastIndexOf('\n') + 1;
  if (end > 0 || text.length < LONGEST_LINE) return end;
  const escapeAt = text.indexOf('=', text.length - 3);
  return escapeAt === -1 ? text.length : escapeAt;
}

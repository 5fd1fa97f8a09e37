/**
 * The canonical forms of DKIM (RFC 6376 §3.4) for signing and for verifying: the SHA-256 of a body, computed chunk by chunk in bounded
 * memory, and the relaxed form of a field.
 *
 * In the simple form of a body, empty lines at the end are removed and the body ends in CRLF. In the relaxed form, in addition, each run of
 * spaces and tabs is one space, runs at line ends are removed, and an empty body stays empty. A bare CR or LF is an ordinary byte.
 *
 * Between chunks, the hash holds back the bytes that may still be removed: line ends (`#lines`), then at most one space, then at most one
 * CR.
 */
import { createHash } from 'node:crypto';

const TAB = 9;
const LF = 10;
const CR = 13;
const SPACE = 32;
const LINE_ENDS = Buffer.from('\r\n'.repeat(512), 'latin1');
const LINE_END = LINE_ENDS.subarray(0, 2);
const BARE_CR = Buffer.from('\r', 'latin1');
const SPACE_AND_CR = Buffer.from(' \r', 'latin1');

export type Canonicalization = 'simple' | 'relaxed';

export class BodyHash {
  readonly #hash = createHash('sha256');
  readonly #canonicalization: Canonicalization;
  readonly #limit: number;
  #canonicalBytes = 0;
  #lines = 0;
  #space = false;
  #cr = false;

  /** `limit`: the number of canonical bytes to hash (the `l=` tag); by default all. */
  constructor(canonicalization: Canonicalization, limit: number = Number.POSITIVE_INFINITY) {
    this.#canonicalization = canonicalization;
    this.#limit = limit;
  }

  /** Hashes the next chunk of the body. Chunks can be split anywhere, and the caller can reuse the buffer afterwards. */
  update(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (this.#canonicalization === 'simple') this.#updatePlain(this.#withoutPendingCr(buffer));
    else if (isPlain(buffer) && !this.#space && !this.#cr) this.#updatePlain(buffer);
    else this.#updateByteByByte(buffer);
  }

  /** Decides, by the next byte, whether the pending CR is part of a line end; returns the remaining bytes. */
  #withoutPendingCr(chunk: Buffer): Buffer {
    if (!this.#cr) return chunk;
    this.#cr = false;
    if (chunk[0] === LF) {
      this.#lines += 1;
      return chunk.subarray(1);
    }
    this.#flushLines();
    this.#add(BARE_CR);
    return chunk;
  }

  /** The fast path: canonicalization changes nothing inside the chunk, so only its trailing line ends are held back. */
  #updatePlain(chunk: Buffer): void {
    let end = chunk.length;
    if (chunk[end - 1] === CR) {
      end -= 1;
      this.#cr = true;
    }
    let lines = 0;
    while (end >= 2 && chunk[end - 1] === LF && chunk[end - 2] === CR) {
      end -= 2;
      lines += 1;
    }
    if (end > 0) {
      this.#flushLines();
      this.#add(end === chunk.length ? chunk : chunk.subarray(0, end));
      this.#lines = lines;
    } else this.#lines += lines;
  }

  #updateByteByByte(chunk: Buffer): void {
    const out = Buffer.allocUnsafe(chunk.length + 2);
    let to = 0;
    let { lines, space, cr } = { lines: this.#lines, space: this.#space, cr: this.#cr };
    for (let i = 0; i < chunk.length; i += 1) {
      const byte = chunk[i]!;
      if (cr) {
        cr = false;
        if (byte === LF) {
          lines += 1;
          space = false;
          continue;
        }
        // The previous byte was a bare CR, which is an ordinary byte.
        to = this.#emitPending(out, to, lines, space);
        lines = 0;
        space = false;
        out[to] = CR;
        to += 1;
      }
      if (byte === SPACE || byte === TAB) space = true;
      else if (byte === CR) cr = true;
      else {
        if (lines > 0 || space) {
          to = this.#emitPending(out, to, lines, space);
          lines = 0;
          space = false;
        }
        out[to] = byte;
        to += 1;
      }
    }
    if (to > 0) this.#add(out.subarray(0, to));
    this.#lines = lines;
    this.#space = space;
    this.#cr = cr;
  }

  /** Writes pending line ends and a pending space. Line ends of earlier chunks go straight to the hash: `out` is too small for them. */
  #emitPending(out: Buffer, to: number, lines: number, space: boolean): number {
    let at = to;
    if (this.#lines > 0) {
      this.#lines = lines;
      this.#flushLines();
    } else {
      for (let i = 0; i < lines; i += 1) {
        out[at] = CR;
        out[at + 1] = LF;
        at += 2;
      }
    }
    if (space) {
      out[at] = SPACE;
      at += 1;
    }
    return at;
  }

  #flushLines(): void {
    while (this.#lines > 0) {
      const lines = Math.min(this.#lines, LINE_ENDS.length / 2);
      this.#add(LINE_ENDS.subarray(0, lines * 2));
      this.#lines -= lines;
    }
  }

  #add(bytes: Uint8Array): void {
    const left = this.#limit - this.#canonicalBytes;
    this.#canonicalBytes += bytes.length;
    if (left >= bytes.length) this.#hash.update(bytes);
    else if (left > 0) this.#hash.update(bytes.subarray(0, left));
  }

  /** Returns Base64 for the `bh=` tag. The object cannot be updated afterwards. */
  digest(): string {
    // A CR at the very end is a bare CR: it is content, followed by the final CRLF.
    if (this.#cr) {
      this.#flushLines();
      this.#add(this.#space ? SPACE_AND_CR : BARE_CR);
    }
    if (this.#canonicalBytes > 0 || this.#canonicalization === 'simple') this.#add(LINE_END);
    return this.#hash.digest('base64');
  }

  /** Returns how many canonical bytes the limit excluded from the hash. Call it after `digest`. */
  unhashedBytes(): number {
    return Math.max(0, this.#canonicalBytes - this.#limit);
  }
}

/** Returns whether canonicalization changes nothing inside the chunk: it has no tab, double space, or space at a line end. */
function isPlain(chunk: Buffer): boolean {
  if (chunk.includes(TAB)) return false;
  if (!chunk.includes(SPACE)) return true;
  const last = chunk[chunk.length - 1];
  if (last === SPACE || last === CR) return false;
  return !/ [ \r]/.test(chunk.toString('latin1'));
}

/**
 * Returns the value of a field in relaxed form (§3.4.2). This does not use \s and trim(), because in Latin-1 text they would match byte A0,
 * which can be part of a UTF-8 character.
 */
export function relaxedValue(value: string): string {
  const unfolded = value.includes('\r\n') ? value.replaceAll('\r\n', '') : value;
  const text = /\t| {2}/.test(unfolded) ? unfolded.replace(/[ \t]+/g, ' ') : unfolded;
  const start = text.charCodeAt(0) === 32 ? 1 : 0;
  const end = text.length > start && text.charCodeAt(text.length - 1) === 32 ? text.length - 1 : text.length;
  return text.slice(start, end);
}

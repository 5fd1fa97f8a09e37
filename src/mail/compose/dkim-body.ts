/**
 * SHA-256 of a body in DKIM's relaxed canonical form (RFC 6376 §3.4.4), chunk by chunk, in bounded memory: runs of spaces and
 * tabs become one space, those at line ends and the empty lines at the end vanish, and a body that is not empty ends in
 * CRLF. A bare CR or LF is an ordinary byte.
 *
 * State between chunks is what was read but may yet vanish: `lines` line ends, then perhaps a space, then perhaps a CR.
 */
import { createHash } from 'node:crypto';

const TAB = 9;
const LF = 10;
const CR = 13;
const SPACE = 32;
const LINE_ENDS = Buffer.from('\r\n'.repeat(512), 'latin1');

export class RelaxedBodyHash {
  readonly #hash = createHash('sha256');
  #lines = 0;
  #space = false;
  #cr = false;
  /** Whether anything but empty lines was read. */
  #content = false;

  /** Takes the next bytes of the body, split anywhere; they may be reused afterwards. */
  update(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (isPlain(buffer) && !this.#space && !this.#cr) this.#updatePlain(buffer);
    else this.#updateByteByByte(buffer);
  }

  /** Nothing inside changes: only the line ends at the end have to be held back. */
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
        // It was a bare CR after all: an ordinary byte.
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

  /** Puts out held line ends and space. Those held from earlier chunks go straight to the hash: `out` has no room for them. */
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
    this.#content = true;
    this.#hash.update(bytes);
  }

  /** Base64, for the `bh=` tag. The object is used up. */
  digest(): string {
    // A CR at the very end is a bare one: content, in front of the line end that is added.
    if (this.#cr) {
      this.#flushLines();
      this.#add(Buffer.from(this.#space ? ' \r' : '\r', 'latin1'));
    }
    if (this.#content) this.#hash.update('\r\n');
    return this.#hash.digest('base64');
  }
}

/** Whether relaxed canonicalisation leaves the inside of the bytes as it is: no tab, no double space, no space at an end. */
function isPlain(chunk: Buffer): boolean {
  if (chunk.includes(TAB)) return false;
  if (!chunk.includes(SPACE)) return true;
  const last = chunk[chunk.length - 1];
  if (last === SPACE || last === CR) return false;
  return !/ [ \r]/.test(chunk.toString('latin1'));
}

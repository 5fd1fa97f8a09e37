/**
 * A queue of bytes that arrive in pieces and are read as one growing buffer. A list of pieces would need some 280 bytes of memory per
 * piece. A single piece is not copied; each further byte is copied a bounded number of times on average. Memory returned as `bytes` is
 * never overwritten, and a small remainder does not keep a large buffer alive.
 */

const NOTHING = Buffer.alloc(0);
const SMALLEST_BYTES = 1024;
/** A remainder up to this length moves out of a buffer that is several times larger. */
const SMALL_REST_BYTES = 4096;

export class ByteQueue {
  #memory: Buffer = NOTHING;
  #start = 0;
  #end = 0;
  /** Whether the buffer was allocated here, so that the free space after the end can be filled. */
  #isOwn = false;

  get length(): number {
    return this.#end - this.#start;
  }

  /** Returns all bytes without copying; later changes of the queue do not affect them. */
  get bytes(): Buffer {
    return this.#start === 0 && this.#end === this.#memory.length
      ? this.#memory
      : this.#memory.subarray(this.#start, this.#end);
  }

  /** Appends a piece; the caller must not write to its memory afterwards. */
  push(piece: Buffer): void {
    if (piece.length === 0) return;
    if (this.length === 0) {
      this.#hold(piece);
      return;
    }
    if (!this.#isOwn || this.#end + piece.length > this.#memory.length) this.#grow(this.length + piece.length);
    piece.copy(this.#memory, this.#end);
    this.#end += piece.length;
  }

  drop(count: number): void {
    this.#start += count;
    const rest = this.length;
    if (rest === 0) this.clear();
    else if (rest <= SMALL_REST_BYTES && this.#memory.length > 4 * Math.max(rest, SMALLEST_BYTES)) {
      this.#hold(Buffer.from(this.bytes));
    }
  }

  clear(): void {
    this.#hold(NOTHING);
  }

  #hold(memory: Buffer): void {
    this.#memory = memory;
    this.#start = 0;
    this.#end = memory.length;
    this.#isOwn = false;
  }

  #grow(neededBytes: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(SMALLEST_BYTES, 2 * neededBytes));
    this.#memory.copy(grown, 0, this.#start, this.#end);
    this.#end = this.length;
    this.#start = 0;
    this.#memory = grown;
    this.#isOwn = true;
  }
}

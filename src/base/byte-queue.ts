/**
 * Bytes that come in pieces and are looked at together: one growing buffer in place of a list of pieces, since a piece costs some
 * 280 bytes of memory beside its own. What came as one piece is not copied; each further byte is copied a bounded number of times on
 * average. Memory that was given to somebody as `bytes` is never written again, and a small rest never keeps much of it.
 */

const NOTHING = Buffer.alloc(0);
const SMALLEST_BYTES = 1024;
/** A rest up to this length moves out of memory that is some times larger. */
const SMALL_REST_BYTES = 4096;

export class ByteQueue {
  #memory: Buffer = NOTHING;
  #start = 0;
  #end = 0;
  /** The memory was made here, so that what is free behind the end may be filled. */
  #isOwn = false;

  get length(): number {
    return this.#end - this.#start;
  }

  /** All bytes, uncopied; what is pushed or dropped later does not show in it. */
  get bytes(): Buffer {
    return this.#start === 0 && this.#end === this.#memory.length
      ? this.#memory
      : this.#memory.subarray(this.#start, this.#end);
  }

  /** The memory of the piece may not be used again by its giver. */
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

  /** Takes `count` bytes away from the front. */
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

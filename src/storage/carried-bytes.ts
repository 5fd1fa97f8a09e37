/**
 * The bytes of a group of calls on their way to the storage thread: copied into one piece, which changes hands without being
 * copied again. The receiver's views of it are good as long as it keeps them.
 */
import type { PackedBytes, UnpackedBytes } from './operation.ts';

export class BytesToCarry implements PackedBytes {
  readonly #pieces: Uint8Array[] = [];
  #sizeBytes = 0;

  add(bytes: Uint8Array): void {
    this.#pieces.push(bytes);
    this.#sizeBytes += bytes.length;
  }

  /** All of them in their order; null where there are none. */
  joined(): ArrayBuffer | null {
    if (this.#sizeBytes === 0) return null;
    const whole = Buffer.allocUnsafeSlow(this.#sizeBytes);
    let at = 0;
    for (const piece of this.#pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole.buffer;
  }
}

export class CarriedBytes implements UnpackedBytes {
  readonly #whole: ArrayBuffer | null;
  #at = 0;

  constructor(whole: ArrayBuffer | null) {
    this.#whole = whole;
  }

  take(length: number): Uint8Array {
    if (length === 0) return new Uint8Array(0);
    if (this.#whole === null || this.#at + length > this.#whole.byteLength)
      throw new RangeError('bytes that were not carried');
    const taken = new Uint8Array(this.#whole, this.#at, length);
    this.#at += length;
    return taken;
  }
}

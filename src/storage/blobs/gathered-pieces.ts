/**
 * A stream in pieces that are worth a call each: small ones are gathered into one buffer, large ones pass as they are. Holds 64 KB
 * at most, and nothing where no piece is small.
 */

const LARGE_PIECE_BYTES = 4 * 1024;
const GATHERED_BYTES = 64 * 1024;

/** The same bytes in the same order. What is yielded is overwritten as soon as more is asked for. */
export async function* gatheredPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let buffer: Buffer | undefined;
  let filled = 0;
  for await (const piece of source) {
    const isLarge = piece.length >= LARGE_PIECE_BYTES;
    if (buffer !== undefined && filled > 0 && (isLarge || filled + piece.length > GATHERED_BYTES)) {
      yield buffer.subarray(0, filled);
      filled = 0;
    }
    if (isLarge) {
      yield piece;
      continue;
    }
    buffer ??= Buffer.allocUnsafeSlow(GATHERED_BYTES);
    buffer.set(piece, filled);
    filled += piece.length;
  }
  if (buffer !== undefined && filled > 0) yield buffer.subarray(0, filled);
}

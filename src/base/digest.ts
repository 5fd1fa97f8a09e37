/**
 * SHA-256 of content that may be large, in slices, so that 40 MB do not hold up the event loop (a slice takes about a
 * third of a millisecond).
 */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';

const SLICE_BYTES = 512_000;

/** The 32 bytes of the digest. The content must not change meanwhile. */
export async function sha256(content: Uint8Array): Promise<Buffer> {
  const hash = createHash('sha256');
  for (let from = 0; from < content.length; from += SLICE_BYTES) {
    if (from > 0) await nextTurn();
    hash.update(content.subarray(from, from + SLICE_BYTES));
  }
  return hash.digest();
}

/**
 * Cuts a stream into parts of one size, of which one is in memory at a time. Streams that turn out to be large share a
 * fixed number of permits for that: however many there are, memory stays bounded, and who comes later waits.
 */

import { createSemaphore } from '../../base/semaphore.ts';

export interface BytePart {
  /** Overwritten as soon as the next part is asked for. */
  bytes: Uint8Array;
  /** Nothing follows. */
  last: boolean;
}

export interface PartCutter {
  /** At least one part, empty for an empty source; all but the last have `partBytes`. Errors of the source pass through. */
  cut(source: AsyncIterable<Uint8Array>): AsyncGenerator<BytePart>;
}

const FIRST_BYTES = 64 * 1024;
/** A part that grows beyond this needs a permit. */
const FREE_BYTES = 1024 * 1024;

export function openPartCutter({ partBytes, partsInMemory }: { partBytes: number; partsInMemory: number }): PartCutter {
  const permits = createSemaphore(partsInMemory);

  async function* cut(source: AsyncIterable<Uint8Array>): AsyncGenerator<BytePart> {
    let buffer: Buffer<ArrayBuffer> = Buffer.allocUnsafeSlow(Math.min(FIRST_BYTES, partBytes));
    let filled = 0;
    let hasPermit = false;
    try {
      for await (const chunk of source) {
        for (let from = 0; from < chunk.length; ) {
          if (filled === partBytes) {
            yield { bytes: buffer, last: false };
            filled = 0;
          }
          const taken = Math.min(chunk.length - from, partBytes - filled);
          if (!hasPermit && filled + taken > FREE_BYTES) {
            await permits.acquire();
            hasPermit = true;
          }
          if (filled + taken > buffer.length) buffer = grown(buffer, filled + taken);
          buffer.set(chunk.subarray(from, from + taken), filled);
          filled += taken;
          from += taken;
        }
      }
      yield { bytes: buffer.subarray(0, filled), last: true };
    } finally {
      if (hasPermit) permits.release();
    }
  }

  const grown = (buffer: Uint8Array, neededBytes: number): Buffer<ArrayBuffer> => {
    let bytes = buffer.length;
    while (bytes < neededBytes) bytes = Math.min(bytes * 2, partBytes);
    const larger = Buffer.allocUnsafeSlow(bytes);
    larger.set(buffer);
    return larger;
  };

  return { cut };
}

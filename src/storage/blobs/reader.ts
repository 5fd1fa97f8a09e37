/**
 * Reads a blob into memory that the caller owns and uses again, so that a large blob costs no garbage. Stores that only
 * have streams are read through them.
 */
import type { Readable } from 'node:stream';
import type { BlobReader, Blobs } from './blobs.ts';

/** Undefined when the blob does not exist; rejects with Unavailable when the storage does not answer. */
export async function openBlob(blobs: Blobs, key: string): Promise<BlobReader | undefined> {
  if (blobs.open) return blobs.open(key);
  const stream = await blobs.read(key);
  return stream && streamReader(stream);
}

/** The stream is destroyed when it is closed before its end. */
export function streamReader(stream: Readable): BlobReader {
  const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  return {
    fill: async (into) => {
      let filled = 0;
      while (filled < into.length) {
        if (rest.length === 0) {
          const next = await chunks.next();
          if (next.done) break;
          rest = next.value;
        }
        const taken = rest.copy(into, filled);
        filled += taken;
        rest = rest.subarray(taken);
      }
      return filled;
    },
    close: async () => {
      stream.on('error', () => {});
      stream.destroy();
    },
  };
}

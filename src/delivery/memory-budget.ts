/**
 * What all attempts together may hold in memory of content that is read from blobs. Ordinary content is held as a whole while
 * it is sent; of mail with stored files only what is not in them, and the chunk that is on its way. The number of the latter
 * is bounded too, since a slow receiver may take one for half an hour: they leave the larger part of the memory to others.
 */
import { type DeliveryJob, encodedFilesBytes } from '../messages/messages.ts';

const MAX_BYTES = 96_000_000;
const MAX_STREAMS = 64;
/** Two chunks of a file, their Base64 lines, and what the socket has not taken yet. */
const BYTES_OF_A_STREAM = 600_000;

export interface MemoryBudget {
  /** Whether an attempt may begin; a single one always may. */
  fits(job: DeliveryJob): boolean;
  /** Acquires what the attempt needs; answers what releases it, or undefined where it needs nothing. */
  acquire(job: DeliveryJob): (() => void) | undefined;
}

function bytesOf({ blobKey, sizeBytes, options: { files } }: DeliveryJob): number {
  const stored = blobKey === null ? 0 : sizeBytes - (files ? encodedFilesBytes(files) : 0);
  return stored + (files ? BYTES_OF_A_STREAM : 0);
}

export function openMemoryBudget(): MemoryBudget {
  let bytes = 0;
  let streams = 0;
  return {
    fits: (job) => {
      if (job.options.files && streams >= MAX_STREAMS) return false;
      const more = bytesOf(job);
      return more === 0 || bytes === 0 || bytes + more <= MAX_BYTES;
    },
    acquire: (job) => {
      const more = bytesOf(job);
      if (more === 0) return undefined;
      const stream = job.options.files ? 1 : 0;
      bytes += more;
      streams += stream;
      return () => {
        bytes -= more;
        streams -= stream;
      };
    },
  };
}

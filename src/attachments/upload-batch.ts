/**
 * An upload batch: the files registered together for one email, which the API calls an attachment submission, and what of them
 * has arrived. The batch and its stored files are two places: a repeated upload takes away the bytes that the row named a moment
 * ago. Who reads both reads again as long as the batch has changed meanwhile.
 */
import type { Mode } from '../base/mode.ts';

/** One file as the manifest describes it. */
export interface ManifestItem {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: Buffer;
}

/** One file of a batch, in its position in the manifest (`number`, from 0). */
export interface BatchFile extends Omit<ManifestItem, 'sha256'> {
  number: number;
  sha256: Uint8Array;
  /** Uploaded straight to the blob storage: `blobKey` is known from the beginning and proves nothing. */
  direct: boolean;
  blobKey: string | null;
  /** What the store said of the blob when its bytes were known to be right; see Blobs.stampOf(). */
  blobStamp: string | null;
}

export interface BatchKey {
  accountId: string;
  mode: Mode;
  id: string;
}

export interface UploadBatch extends BatchKey {
  /** Of the POST /attachments that made it. */
  idempotencyKey: string | null;
  /** Unix ms at which the upload URLs expire. */
  expiresAt: number;
  /** Grows with every change of the files. */
  version: number;
  /** Unix ms of the send; null while it is open. */
  usedAt: number | null;
  files: BatchFile[];
}

/** Only a client that uploads the same file all the time is in the way longer. */
const READS_AT_MOST = 10;

/**
 * What `read` makes of the batch; undefined when there is none (any more). An answer that is not final counts only if the
 * batch is still the one that was read; otherwise it is read again.
 */
export async function readConsistently<T extends { isFinal: boolean }>(
  find: () => Promise<UploadBatch | null>,
  read: (batch: UploadBatch) => Promise<T>,
): Promise<T | undefined> {
  let batch = await find();
  for (let reads = 1; batch !== null; reads += 1) {
    const answer = await read(batch);
    if (answer.isFinal || reads === READS_AT_MOST) return answer;
    const now = await find();
    if (now?.version === batch.version && now.usedAt === batch.usedAt) return answer;
    batch = now;
  }
  return undefined;
}

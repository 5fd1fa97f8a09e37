/** The attachment submission and its files: what is registered, and what of it has arrived. Shapes only. */
import type { Mode } from '../base/mode.ts';

/** One file as the manifest describes it. */
export interface ManifestItem {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: Buffer;
}

/** One file of a submission, in its place in the manifest (`number`, from 0). */
export interface SubmissionFile {
  number: number;
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: Uint8Array;
  /** Uploaded straight to the blob storage: `blobKey` is known from the beginning and proves nothing. */
  direct: boolean;
  blobKey: string | null;
  /** What the store said of the blob when its bytes were known to be right; see Blobs.stampOf(). */
  blobStamp: string | null;
}

export interface Submission {
  id: string;
  accountId: string;
  mode: Mode;
  /** Of the POST /attachments that made it. */
  idempotencyKey: string | null;
  /** Unix ms at which the upload URLs expire. */
  expiresAt: number;
  /** Grows with every change of the files. */
  version: number;
  /** Unix ms of the send; null while it is open. */
  usedAt: number | null;
  files: SubmissionFile[];
}

/**
 * What the house knows of blob storage: content too large for a database row. A blob is written once under a random
 * key, is on stable storage before put() resolves, and is never changed. The row that names it is committed afterwards;
 * a blob that no row names is an orphan and is swept later.
 */
import type { Readable } from 'node:stream';

export interface Blobs {
  /** Stores the bytes; the key is made here. Rejects with Unavailable when the storage does not take them. */
  put(content: Uint8Array): Promise<string>;
  /** The whole blob, or undefined when it does not exist. */
  get(key: string): Promise<Buffer | undefined>;
  /** The blob as a stream, or undefined when it does not exist. */
  read(key: string): Promise<Readable | undefined>;
  /** Removing what is not there is no error. */
  remove(key: string): Promise<void>;
  /** Every key with the time it was written (Unix ms), in no order. */
  list(): AsyncIterable<{ key: string; writtenAtMs: number }>;
}

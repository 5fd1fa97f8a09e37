/** Reads the bytes of a message as it was accepted, from the database and the blobs. */
import type { Readable } from 'node:stream';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { type StoredContent, storedContentOf } from '../storage/blobs/stored-content.ts';
import { streamLargeContent } from './large-content.ts';
import type { EmailOptions } from './message.ts';

/** Returns the complete message; undefined if it, or one of its files, is no longer stored. */
export async function readContent(
  found: StoredContent & { options: string },
  blobs: Blobs,
): Promise<Buffer | Readable | undefined> {
  const { files } = JSON.parse(found.options) as EmailOptions;
  if (files === undefined) {
    if (found.blob_key !== null) return blobs.read(found.blob_key);
    const content = await storedContentOf(found, blobs);
    return content && Buffer.from(content);
  }
  const stored = await storedContentOf(found, blobs);
  return stored ? streamLargeContent({ content: Buffer.from(stored), files }, blobs) : undefined;
}

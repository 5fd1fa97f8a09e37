/**
 * The content of an email as it is stored: small content in the row, with its digest, larger content in a blob that is named by its own.
 * Content that is not what was accepted is never sent and never shown.
 */
import { hash } from 'node:crypto';
import { Unavailable } from '../../base/failure.ts';
import type { Blobs } from './blobs.ts';

export interface StoredContent {
  /** At most one of the two; neither when the content is no longer kept. */
  content: Uint8Array | null;
  blob_key: string | null;
  /** Of `content`; null in rows from before digests were kept. */
  content_digest: Uint8Array | null;
}

/** Small content is not what was accepted. */
export class ContentDamaged extends Unavailable {
  override name = 'ContentDamaged';

  constructor() {
    super('the content of an email in the database is not what was accepted: its SHA-256 differs');
  }
}

/** The SHA-256 of content that is stored in its row. */
export function digestOfContent(content: Uint8Array): Buffer {
  return hash('sha256', content, 'buffer');
}

/** Whether content from a row is what was accepted, as far as the row can tell. */
export function isAsAccepted(content: Uint8Array, digest: Uint8Array | null | undefined): boolean {
  return !digest || digestOfContent(content).equals(digest);
}

/** All of the stored content, without files of a large email; undefined when it is no longer kept. Throws ContentDamaged, and as `blobs` does. */
export async function storedContentOf(
  { content, blob_key: key, content_digest: digest }: StoredContent,
  blobs: Pick<Blobs, 'get'>,
): Promise<Uint8Array | undefined> {
  if (key !== null) return blobs.get(key);
  if (content === null) return undefined;
  if (!isAsAccepted(content, digest)) throw new ContentDamaged();
  return content;
}

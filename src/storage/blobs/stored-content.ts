/**
 * The stored content of an email: small content in the row, with its digest; larger content in a blob whose key has the digest. Content
 * that differs from the accepted content is never sent or returned.
 */
import { hash } from 'node:crypto';
import { Unavailable } from '../../base/failure.ts';
import type { Blobs } from './blobs.ts';

export interface StoredContent {
  /** At most one of the two is set; neither if the content is no longer kept. */
  content: Uint8Array | null;
  blob_key: string | null;
  /** Digest of `content`; null in rows written before digests were stored. */
  content_digest: Uint8Array | null;
}

/** The content in a row differs from the accepted content. */
export class ContentDamaged extends Unavailable {
  override name = 'ContentDamaged';

  constructor() {
    super('the content of an email in the database is not what was accepted: its SHA-256 differs');
  }
}

/** Returns the SHA-256 of content that is stored in its row. */
export function digestOfContent(content: Uint8Array): Buffer {
  return hash('sha256', content, 'buffer');
}

/** Returns whether content from a row matches its digest; true if there is no digest. */
export function isAsAccepted(content: Uint8Array, digest: Uint8Array | null | undefined): boolean {
  return !digest || digestOfContent(content).equals(digest);
}

/**
 * Returns the stored content, without the files of a large email; undefined if it is no longer kept. Throws ContentDamaged, and whatever
 * `blobs` throws.
 */
export async function storedContentOf(
  { content, blob_key: key, content_digest: digest }: StoredContent,
  blobs: Pick<Blobs, 'get'>,
): Promise<Uint8Array | undefined> {
  if (key !== null) return blobs.get(key);
  if (content === null) return undefined;
  if (!isAsAccepted(content, digest)) throw new ContentDamaged();
  return content;
}

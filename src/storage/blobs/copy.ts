/**
 * Copies every blob into a file that already has all rows, and compares it with the rows: a blob that a row names and that is not in the
 * file is reported as lost. A missing or damaged blob does not stop the others from being copied. Blobs that no row names do not matter.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Progress } from '../portable-file.ts';
import { BlobDamaged, type Blobs } from './blobs.ts';

export interface CopyBlobs {
  blobs: Blobs;
  /**
   * Returns whether a row of the source names the blob now. While the service is running, content may be removed during the copy although
   * the copied rows still name it.
   */
  isNamed(key: string): boolean | Promise<boolean>;
  progress?: Progress;
}

export interface CopiedBlobs {
  /** Number of blobs in the file. */
  blobs: number;
  /** Keys of blobs that rows name and that are missing or damaged in the store. */
  lost: string[];
}

/**
 * The keys that must have content, as SQL. A file that is uploaded directly to the store has its key beforehand, which means nothing until
 * its submission is sent.
 */
const NAMED = `SELECT blob_key AS key FROM email WHERE blob_key IS NOT NULL
  UNION SELECT f.blob_key FROM attachment_file f JOIN attachment_submission s ON s.id = f.submission_id
    WHERE f.blob_key IS NOT NULL AND (f.direct = 0 OR s.used_at IS NOT NULL)
  UNION SELECT blob_key FROM inbound_mail WHERE blob_key IS NOT NULL`;

/** Queries that find a row naming the blob, for CopyBlobs.isNamed, with the key as parameter. */
export const NAMED_BY = ['email', 'attachment_file', 'inbound_mail'].map(
  (table) => (parameter: string) => `SELECT 1 AS found FROM ${table} WHERE blob_key = ${parameter} LIMIT 1`,
);

/** Creates and fills the table `blob_backup`. */
export async function copyBlobs(file: DatabaseSync, { blobs, isNamed, progress }: CopyBlobs): Promise<CopiedBlobs> {
  file.exec('CREATE TABLE blob_backup (key TEXT PRIMARY KEY, content BLOB NOT NULL)');
  const insert = file.prepare('INSERT INTO blob_backup (key, content) VALUES (?, ?)');
  const copy = async (key: string): Promise<boolean> => {
    const content = await blobs.get(key).catch((error: Error) => {
      if (!(error instanceof BlobDamaged)) throw error;
    });
    if (content === undefined) return false;
    insert.run(key, content);
    return true;
  };
  const listed: string[] = [];
  for await (const { key } of blobs.list()) listed.push(key);
  let copied = 0;
  for (const [index, key] of listed.entries()) {
    if (await copy(key)) copied += 1;
    progress?.('blobs', index + 1, listed.length);
  }
  const lost: string[] = [];
  const missing = file.prepare(
    `SELECT key FROM (${NAMED}) WHERE key NOT IN (SELECT key FROM blob_backup) ORDER BY key`,
  );
  for (const row of missing.all()) {
    const key = String(row.key);
    // Reads the blob again by its key, because the listing may be outdated.
    if (await copy(key)) copied += 1;
    else if (await isNamed(key)) lost.push(key);
  }
  return { blobs: copied, lost };
}

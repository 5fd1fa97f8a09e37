/**
 * Copies every blob into a file that has all rows already, and compares it with the rows: a blob that a row names and that is
 * not in the file is lost to who trusts the file, and is reported. What is missing or damaged does not keep the rest from
 * being copied; what no row names is nobody's loss.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Progress } from '../portable-file.ts';
import { BlobDamaged, type Blobs } from './blobs.ts';

export interface CopyBlobs {
  blobs: Blobs;
  /**
   * Whether some row of the source names the blob now. Beside a running service content is removed while it is copied, with
   * the name that the copy still has.
   */
  isNamed(key: string): boolean | Promise<boolean>;
  progress?: Progress;
}

export interface CopiedBlobs {
  /** How many are in the file. */
  blobs: number;
  /** Keys of those that rows name and that are missing or damaged in the store. */
  lost: string[];
}

/**
 * The keys for which there have to be bytes, as SQL. A file that goes straight to the store has its key beforehand, which says
 * nothing before its submission is sent.
 */
const NAMED = `SELECT blob_key AS key FROM email WHERE blob_key IS NOT NULL
  UNION SELECT f.blob_key FROM attachment_file f JOIN attachment_submission s ON s.id = f.submission_id
    WHERE f.blob_key IS NOT NULL AND (f.direct = 0 OR s.used_at IS NOT NULL)
  UNION SELECT blob_key FROM inbound_mail WHERE blob_key IS NOT NULL`;

/** Whether one of the statements finds a row that names the blob; for CopyBlobs.isNamed, with the key as parameter. */
export const NAMED_BY = ['email', 'attachment_file', 'inbound_mail'].map(
  (table) => (parameter: string) => `SELECT 1 AS found FROM ${table} WHERE blob_key = ${parameter} LIMIT 1`,
);

/** Makes and fills the table `blob_backup`. */
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
    // Asked for once more by its name: a listing may be late, and content may come and go while it is read.
    if (await copy(key)) copied += 1;
    else if (await isNamed(key)) lost.push(key);
  }
  return { blobs: copied, lost };
}

/**
 * Removes submissions and files that are kept no longer, a bounded number at a time. Files of a used submission stay as long
 * as the content of any email made of them; an open submission is removed only by a sweep that has seen twice that its time is over.
 */
import { operation, type Transaction } from '../storage/operation.ts';

/** How long files that were not sent are kept behind the expiry of their URLs. */
export const KEEP_UNSENT_MS = 86_400_000;

export interface OverdueBatch {
  /** Unix ms: submissions whose URLs expired at this time or before are overdue. */
  expiredBeforeMs: number;
  /** Id of the last one seen. */
  afterId: string;
  limit: number;
}

/** Open submissions that are overdue, in order of their ids. */
export const overdueBatchesOperation = operation(
  'attachments.overdue',
  'read',
  async (tx, batch: OverdueBatch): Promise<string[]> => {
    const rows = await tx.all<{ id: string }>(
      `SELECT id FROM attachment_submission WHERE used_at IS NULL AND expires_at <= ? AND id > ? ORDER BY id LIMIT ?`,
      batch.expiredBeforeMs,
      batch.afterId,
      batch.limit,
    );
    return rows.map((row) => row.id);
  },
);

export interface RemovedFiles {
  /** Submissions that were removed, or lost their files. */
  count: number;
  /** Blobs that nothing names any more. */
  blobKeys: string[];
}

/** Removes those of these submissions that are still open and overdue, with their files. */
export const removeOverdueOperation = operation(
  'attachments.removeOverdue',
  'write',
  async (tx, args: { ids: string[]; expiredBeforeMs: number }): Promise<RemovedFiles> => {
    const removed: RemovedFiles = { count: 0, blobKeys: [] };
    for (const id of args.ids) {
      // What finishes an upload or a send changes this row first, and so waits for us or we for them.
      const overdue = await tx.run(
        'UPDATE attachment_submission SET version = version + 1 WHERE id = ? AND used_at IS NULL AND expires_at <= ?',
        id,
        args.expiredBeforeMs,
      );
      if (overdue === 0) continue;
      removed.count += 1;
      removed.blobKeys.push(...(await blobKeysOf(tx, id)));
      await removeBatch(tx, id);
    }
    return removed;
  },
);

export interface UsedBatch {
  /** Id of the last submission that was looked at. */
  afterId: string;
  limit: number;
  /** Unix ms: of submissions used since then the row is kept for its key, only the files go. */
  rowsFromMs: number;
}

/**
 * Takes the files from used submissions none of whose emails has its content any more. `lastId` is where to go on, or null
 * when all were looked at.
 */
export const removeUsedFilesOperation = operation(
  'attachments.removeUsedFiles',
  'write',
  async (tx, batch: UsedBatch): Promise<RemovedFiles & { lastId: string | null }> => {
    const rows = await tx.all<{ id: string; used_at: number; kept: number }>(
      `SELECT s.id, s.used_at, CASE WHEN EXISTS
         (SELECT 1 FROM attachment_use u JOIN email e ON e.seq = u.email_seq
          WHERE u.submission_id = s.id AND e.content_until IS NOT NULL) THEN 1 ELSE 0 END AS kept
       FROM attachment_submission s WHERE s.used_at IS NOT NULL AND s.id > ? ORDER BY s.id LIMIT ?`,
      batch.afterId,
      batch.limit,
    );
    const removed: RemovedFiles = { count: 0, blobKeys: [] };
    for (const row of rows) {
      if (row.kept === 1) continue;
      const blobKeys = await blobKeysOf(tx, row.id);
      const isOver = row.used_at <= batch.rowsFromMs;
      if (isOver) await removeBatch(tx, row.id);
      else if (blobKeys.length > 0)
        await tx.run('UPDATE attachment_file SET blob_key = NULL WHERE submission_id = ?', row.id);
      if (isOver || blobKeys.length > 0) removed.count += 1;
      removed.blobKeys.push(...blobKeys);
    }
    return { ...removed, lastId: rows.length === batch.limit ? (rows.at(-1)?.id ?? null) : null };
  },
);

async function blobKeysOf(tx: Transaction, submissionId: string): Promise<string[]> {
  const rows = await tx.all<{ blob_key: string }>(
    'SELECT blob_key FROM attachment_file WHERE submission_id = ? AND blob_key IS NOT NULL ORDER BY number',
    submissionId,
  );
  return rows.map((row) => row.blob_key);
}

async function removeBatch(tx: Transaction, id: string): Promise<void> {
  await tx.run('DELETE FROM attachment_use WHERE submission_id = ?', id);
  await tx.run('DELETE FROM attachment_file WHERE submission_id = ?', id);
  await tx.run('DELETE FROM attachment_submission WHERE id = ?', id);
}

/** Which of these blobs hold a file of a submission; asked where rows are written, so that none is missed. */
export const uploadedBlobsOperation = operation(
  'attachments.namedBlobs',
  'write',
  async (tx, keys: string[]): Promise<string[]> => {
    if (keys.length === 0) return [];
    const rows = await tx.all<{ blob_key: string }>(
      `SELECT blob_key FROM attachment_file WHERE blob_key IN (${keys.map(() => '?').join(', ')})`,
      ...keys,
    );
    return rows.map((row) => row.blob_key);
  },
);

/**
 * Stores upload batches and their upload status. A batch contains the files registered together for one email; the API calls it an
 * attachment submission. The row and the stored files are separate: a repeated upload deletes the bytes that the row referred to before, so
 * code that reads both must read again if the batch has changed in the meantime.
 *
 * Operations read batches, switch a file to newly uploaded bytes, and mark a batch as used in the transaction of the send. Uploads change
 * the files of open batches; files of used batches never change.
 *
 * Expired batches and files are deleted in limited steps. Files of a used batch are kept while the content of any of its emails is kept. An
 * open batch is deleted only after two sweeps have found it expired.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';

/** One file as the manifest describes it. */
export interface ManifestItem {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: Buffer;
}

/** One file of a batch at its position in the manifest (`number`, from 0). */
export interface BatchFile extends Omit<ManifestItem, 'sha256'> {
  number: number;
  sha256: Uint8Array;
  /** Whether clients upload the file directly to blob storage; `blobKey` is then set from the start, so it does not prove an upload. */
  direct: boolean;
  blobKey: string | null;
  /** Stamp that the blob had when its bytes were verified; see Blobs.stampOf(). */
  blobStamp: string | null;
}

export interface BatchKey {
  accountId: string;
  mode: Mode;
  id: string;
}

export interface UploadBatch extends BatchKey {
  /** Idempotency key of the POST /attachments request that created the batch. */
  idempotencyKey: string | null;
  /** Unix ms at which the upload URLs expire. */
  expiresAt: number;
  /** Increases with every change of the files. */
  version: number;
  /** Unix ms of the send; null while the batch is open. */
  usedAt: number | null;
  files: BatchFile[];
}

/** Only a client that uploads the same file continuously can exceed this. */
const MAX_READS = 10;

/**
 * Returns the result of `read` for the batch, or undefined if the batch does not exist. A final result is returned immediately. Any other
 * result is valid only if the batch has not changed in the meantime; otherwise the batch is read again.
 */
export async function readConsistently<T extends { isFinal: boolean }>(
  find: () => Promise<UploadBatch | null>,
  read: (batch: UploadBatch) => Promise<T>,
): Promise<T | undefined> {
  let batch = await find();
  for (let reads = 1; batch !== null; reads += 1) {
    const result = await read(batch);
    if (result.isFinal || reads === MAX_READS) return result;
    const now = await find();
    if (now?.version === batch.version && now.usedAt === batch.usedAt) return result;
    batch = now;
  }
  return undefined;
}

export type BatchRow = Omit<UploadBatch, 'files'> & { manifestHash: Uint8Array };
type FileRow = Omit<BatchFile, 'direct'> & { direct: number };

export const BATCH_COLUMNS = `id, account_id AS "accountId", mode, idempotency_key AS "idempotencyKey",
  manifest_hash AS "manifestHash", expires_at AS "expiresAt", version, used_at AS "usedAt"`;
const FILE_COLUMNS = `number, name, content_type AS "contentType", size_bytes AS "sizeBytes", sha256, direct,
  blob_key AS "blobKey", blob_stamp AS "blobStamp"`;

const fileOf = (row: FileRow): BatchFile => ({ ...row, direct: row.direct === 1 });

export async function withFiles(tx: Transaction, row: BatchRow): Promise<UploadBatch> {
  const { id, accountId, mode, idempotencyKey, expiresAt, version, usedAt } = row;
  const files = await tx.all<FileRow>(
    `SELECT ${FILE_COLUMNS} FROM attachment_file WHERE submission_id = ? ORDER BY number`,
    id,
  );
  return { id, accountId, mode, idempotencyKey, expiresAt, version, usedAt, files: files.map(fileOf) };
}

/** Reads a batch with its files; null if the account has none with this id in this mode. */
export const batchOperation = operation('attachments.submission', 'read', async (tx, key: BatchKey) => {
  const row = await tx.get<BatchRow>(
    `SELECT ${BATCH_COLUMNS} FROM attachment_submission WHERE id = ? AND account_id = ? AND mode = ?`,
    key.id,
    key.accountId,
    key.mode,
  );
  return row === undefined ? null : withFiles(tx, row);
});

/** The data that an upload is checked against. */
interface UploadTarget {
  accountId: string;
  expiresAt: number;
  usedAt: number | null;
  isSuspended: boolean;
  file: BatchFile;
}

/** Finds the file that an upload token refers to, in any account: the token itself authorizes the upload. */
export const uploadTargetOperation = operation(
  'attachments.uploadTarget',
  'read',
  async (tx, key: { submissionId: string; number: number }): Promise<UploadTarget | null> => {
    const row = await tx.get<Omit<UploadTarget, 'file' | 'isSuspended'> & { suspended: number }>(
      `SELECT account_id AS "accountId", expires_at AS "expiresAt", used_at AS "usedAt", CASE WHEN EXISTS
         (SELECT 1 FROM account a WHERE a.id = account_id AND a.status = 'suspended') THEN 1 ELSE 0 END AS suspended
       FROM attachment_submission WHERE id = ?`,
      key.submissionId,
    );
    const file = await tx.get<FileRow>(
      `SELECT ${FILE_COLUMNS} FROM attachment_file WHERE submission_id = ? AND number = ?`,
      key.submissionId,
      key.number,
    );
    if (row === undefined || file === undefined) return null;
    const { accountId, expiresAt, usedAt } = row;
    return { accountId, expiresAt, usedAt, isSuspended: row.suspended === 1, file: fileOf(file) };
  },
);

interface FinishedUpload {
  submissionId: string;
  number: number;
  /** Key of the new blob, which contains exactly the bytes that the manifest declares. */
  blobKey: string;
  /** Stamp of the blob as written; null if the store has none. */
  blobStamp: string | null;
}

/**
 * Switches the file to the uploaded blob. If two uploads run concurrently, the later one wins. Returns the replaced blob, or `taken: false`
 * if the batch was sent or deleted in the meantime; in that case no row refers to the new blob.
 */
export const finishUploadOperation = operation(
  'attachments.finishUpload',
  'write',
  async (tx, upload: FinishedUpload): Promise<{ isStored: boolean; replaced: string | null }> => {
    const open = await tx.run(
      'UPDATE attachment_submission SET version = version + 1, has_files = 1 WHERE id = ? AND used_at IS NULL',
      upload.submissionId,
    );
    if (open === 0) return { isStored: false, replaced: null };
    const before = await tx.get<{ blob_key: string | null }>(
      'SELECT blob_key FROM attachment_file WHERE submission_id = ? AND number = ?',
      upload.submissionId,
      upload.number,
    );
    if (before === undefined) throw new Error(`file ${upload.number} of ${upload.submissionId} does not exist`);
    await tx.run(
      'UPDATE attachment_file SET blob_key = ?, blob_stamp = ? WHERE submission_id = ? AND number = ?',
      upload.blobKey,
      upload.blobStamp,
      upload.submissionId,
      upload.number,
    );
    return { isStored: true, replaced: before.blob_key };
  },
);

/** Records the stamp of a blob that was read and verified again. Has no effect if another upload was stored in the meantime. */
export const confirmFileOperation = operation('attachments.confirmFile', 'write', async (tx, file: FinishedUpload) => {
  await tx.run(
    'UPDATE attachment_file SET blob_stamp = ? WHERE submission_id = ? AND number = ? AND blob_key = ?',
    file.blobStamp,
    file.submissionId,
    file.number,
    file.blobKey,
  );
});

/** A batch in the state in which the send read it. */
export interface BatchUse {
  submissionId: string;
  accountId: string;
  mode: Mode;
  /** Version that was read; a later upload changes it. */
  version: number;
  nowMs: number;
}

/**
 * Marks an open batch as used, in the transaction that accepts its email; the caller then calls `bindFiles`. Returns false if the batch was
 * used, changed, or deleted since it was read; the caller must then accept nothing.
 */
export async function markBatchUsed(tx: Transaction, use: BatchUse): Promise<boolean> {
  const changed = await tx.run(
    `UPDATE attachment_submission SET used_at = ?
     WHERE id = ? AND account_id = ? AND mode = ? AND version = ? AND used_at IS NULL`,
    use.nowMs,
    use.submissionId,
    use.accountId,
    use.mode,
    use.version,
  );
  return changed === 1;
}

/** Undoes `markBatchUsed` in the same transaction, if nothing was accepted. */
export async function unmarkBatchUsed(tx: Transaction, use: BatchUse): Promise<void> {
  await tx.run('UPDATE attachment_submission SET used_at = NULL WHERE id = ?', use.submissionId);
}

/** Records that the email contains the files of the batch. The files are then kept as long as the content of the email. */
export async function bindFiles(tx: Transaction, submissionId: string, emailSeq: number): Promise<void> {
  await tx.run('INSERT INTO attachment_use (email_seq, submission_id) VALUES (?, ?)', emailSeq, submissionId);
}

/** Unsent files are kept for this long after their upload URLs expire. */
export const KEEP_UNSENT_MS = 86_400_000;

interface OverduePage {
  /** Unix ms. Batches whose URLs expired at or before this time are overdue. */
  expiredBeforeMs: number;
  /** Id of the last batch of the previous page. */
  afterId: string;
  limit: number;
}

/** Lists the ids of open batches that are overdue, in ascending order. */
export const overdueBatchesOperation = operation('attachments.overdue', 'read', async (tx, batch: OverduePage) => {
  const rows = await tx.all<{ id: string }>(
    `SELECT id FROM attachment_submission WHERE used_at IS NULL AND expires_at <= ? AND id > ? ORDER BY id LIMIT ?`,
    batch.expiredBeforeMs,
    batch.afterId,
    batch.limit,
  );
  return rows.map((row) => row.id);
});

export interface RemovedFiles {
  /** Number of batches that were deleted or whose files were deleted. */
  count: number;
  /** Blobs that no row refers to anymore. */
  blobKeys: string[];
}

/** Deletes the given batches and their files, except batches that are no longer open and overdue. */
export const removeOverdueOperation = operation(
  'attachments.removeOverdue',
  'write',
  async (tx, args: { ids: string[]; expiredBeforeMs: number }): Promise<RemovedFiles> => {
    const removed: RemovedFiles = { count: 0, blobKeys: [] };
    for (const id of args.ids) {
      // Uploads and sends update this row first, so they are serialized with this deletion.
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

interface UsedPage {
  /** Id of the last batch of the previous page. */
  afterId: string;
  limit: number;
  /** Unix ms. The rows of batches used after this time are kept for their idempotency keys; only their files are deleted. */
  rowsFromMs: number;
}

/**
 * Deletes the files of used batches whose emails no longer have content. To continue, pass `lastId` as `afterId`; it is null when no
 * batches are left.
 */
export const removeUsedFilesOperation = operation(
  'attachments.removeUsedFiles',
  'write',
  async (tx, batch: UsedPage): Promise<RemovedFiles & { lastId: string | null }> => {
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
      const isRowExpired = row.used_at <= batch.rowsFromMs;
      if (isRowExpired) await removeBatch(tx, row.id);
      else if (blobKeys.length > 0)
        await tx.run('UPDATE attachment_file SET blob_key = NULL WHERE submission_id = ?', row.id);
      if (isRowExpired || blobKeys.length > 0) removed.count += 1;
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

/** Returns the given blobs that contain a file of a batch. Runs as a write, so that it sees every row written before. */
export const uploadedBlobsOperation = operation('attachments.namedBlobs', 'write', async (tx, keys: string[]) => {
  if (keys.length === 0) return [];
  const rows = await tx.all<{ blob_key: string }>(
    `SELECT blob_key FROM attachment_file WHERE blob_key IN (${keys.map(() => '?').join(', ')})`,
    ...keys,
  );
  return rows.map((row) => row.blob_key);
});

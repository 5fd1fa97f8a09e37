/**
 * The rows of upload batches: reading them, switching a file to the bytes that have arrived, and marking a batch as used in the
 * transaction of the send. The files of an open batch change by uploads alone, those of a used one never again.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import type { BatchFile, BatchKey, UploadBatch } from './upload-batch.ts';

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

/** With its files; null when the account has none of this id in this mode. */
export const batchOperation = operation(
  'attachments.submission',
  'read',
  async (tx, key: BatchKey): Promise<UploadBatch | null> => {
    const row = await tx.get<BatchRow>(
      `SELECT ${BATCH_COLUMNS} FROM attachment_submission WHERE id = ? AND account_id = ? AND mode = ?`,
      key.id,
      key.accountId,
      key.mode,
    );
    return row === undefined ? null : withFiles(tx, row);
  },
);

/** What an upload is checked against. */
export interface UploadTarget {
  accountId: string;
  expiresAt: number;
  usedAt: number | null;
  isSuspended: boolean;
  file: BatchFile;
}

/** The file that a token names, whosever it is: the token is what gives the right. */
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

export interface FinishedUpload {
  submissionId: string;
  number: number;
  /** Holds exactly the bytes of the manifest. */
  blobKey: string;
  /** Of the blob as it was written; null where the store says none. */
  blobStamp: string | null;
}

/**
 * Switches the file to the blob that has arrived; of two uploads at once the later one stays. Answers the blob that it
 * replaces, or `taken: false` when the submission was sent or removed meanwhile: nothing names the new blob then.
 */
export const finishUploadOperation = operation(
  'attachments.finishUpload',
  'write',
  async (tx, upload: FinishedUpload): Promise<{ taken: boolean; replaced: string | null }> => {
    const open = await tx.run(
      'UPDATE attachment_submission SET version = version + 1, has_files = 1 WHERE id = ? AND used_at IS NULL',
      upload.submissionId,
    );
    if (open === 0) return { taken: false, replaced: null };
    const before = await tx.get<{ blob_key: string | null }>(
      'SELECT blob_key FROM attachment_file WHERE submission_id = ? AND number = ?',
      upload.submissionId,
      upload.number,
    );
    if (before === undefined) throw new Error(`file ${upload.number} of ${upload.submissionId} is gone`);
    await tx.run(
      'UPDATE attachment_file SET blob_key = ?, blob_stamp = ? WHERE submission_id = ? AND number = ?',
      upload.blobKey,
      upload.blobStamp,
      upload.submissionId,
      upload.number,
    );
    return { taken: true, replaced: before.blob_key };
  },
);

/** Records the stamp of a blob whose bytes were read again and are right; nothing when another upload came meanwhile. */
export const confirmFileOperation = operation(
  'attachments.confirmFile',
  'write',
  async (tx, file: FinishedUpload): Promise<void> => {
    await tx.run(
      'UPDATE attachment_file SET blob_stamp = ? WHERE submission_id = ? AND number = ? AND blob_key = ?',
      file.blobStamp,
      file.submissionId,
      file.number,
      file.blobKey,
    );
  },
);

/** The submission as a send has found it complete. */
export interface BatchUse {
  submissionId: string;
  accountId: string;
  mode: Mode;
  /** Of the submission that was looked at: an upload that came since makes it another one. */
  version: number;
  nowMs: number;
}

/**
 * Marks an open submission as used, inside the transaction that accepts its email; `bindFiles` follows. False when it was
 * used, changed or removed since it was looked at: nothing may be accepted then.
 */
export async function markBatchUsed(tx: Transaction, use: BatchUse): Promise<boolean> {
  const taken = await tx.run(
    `UPDATE attachment_submission SET used_at = ?
     WHERE id = ? AND account_id = ? AND mode = ? AND version = ? AND used_at IS NULL`,
    use.nowMs,
    use.submissionId,
    use.accountId,
    use.mode,
    use.version,
  );
  return taken === 1;
}

/** Undoes `markBatchUsed` in the same transaction, when nothing was accepted after all. */
export async function unmarkBatchUsed(tx: Transaction, use: BatchUse): Promise<void> {
  await tx.run('UPDATE attachment_submission SET used_at = NULL WHERE id = ?', use.submissionId);
}

/** Records that the email is made of the submission's files, which then stay as long as its content does. */
export async function bindFiles(tx: Transaction, submissionId: string, emailSeq: number): Promise<void> {
  await tx.run('INSERT INTO attachment_use (email_seq, submission_id) VALUES (?, ?)', emailSeq, submissionId);
}

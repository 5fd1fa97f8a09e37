/**
 * The rows of attachment submissions: reading them, switching a file to the bytes that have arrived, and marking a submission
 * as used in the transaction of the send. The files of an open submission change by uploads alone, those of a used one never
 * again.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import type { Submission, SubmissionFile } from './submission.ts';

export interface SubmissionRow {
  id: string;
  account_id: string;
  mode: Mode;
  idempotency_key: string | null;
  manifest_hash: Uint8Array;
  expires_at: number;
  version: number;
  used_at: number | null;
}

interface FileRow {
  number: number;
  name: string;
  content_type: string;
  size_bytes: number;
  sha256: Uint8Array;
  direct: number;
  blob_key: string | null;
  blob_stamp: string | null;
}

export const COLUMNS = 'id, account_id, mode, idempotency_key, manifest_hash, expires_at, version, used_at';
export const FILE_COLUMNS = 'number, name, content_type, size_bytes, sha256, direct, blob_key, blob_stamp';

function fileOf(row: FileRow): SubmissionFile {
  return {
    number: row.number,
    name: row.name,
    contentType: row.content_type,
    sizeBytes: row.size_bytes,
    sha256: row.sha256,
    direct: row.direct === 1,
    blobKey: row.blob_key,
    blobStamp: row.blob_stamp,
  };
}

export async function withFiles(tx: Transaction, row: SubmissionRow): Promise<Submission> {
  const files = await tx.all<FileRow>(
    `SELECT ${FILE_COLUMNS} FROM attachment_file WHERE submission_id = ? ORDER BY number`,
    row.id,
  );
  return {
    id: row.id,
    accountId: row.account_id,
    mode: row.mode,
    idempotencyKey: row.idempotency_key,
    expiresAt: row.expires_at,
    version: row.version,
    usedAt: row.used_at,
    files: files.map(fileOf),
  };
}

/** With its files; null when the account has none of this id in this mode. */
export const submissionOperation = operation(
  'attachments.submission',
  'read',
  async (tx, key: { accountId: string; mode: Mode; id: string }): Promise<Submission | null> => {
    const row = await tx.get<SubmissionRow>(
      `SELECT ${COLUMNS} FROM attachment_submission WHERE id = ? AND account_id = ? AND mode = ?`,
      key.id,
      key.accountId,
      key.mode,
    );
    return row === undefined ? null : withFiles(tx, row);
  },
);

/** What an upload is judged by. */
export interface UploadTarget {
  accountId: string;
  expiresAt: number;
  usedAt: number | null;
  isSuspended: boolean;
  file: SubmissionFile;
}

/** The file that a token names, whosever it is: the token is what gives the right. */
export const uploadTargetOperation = operation(
  'attachments.uploadTarget',
  'read',
  async (tx, key: { submissionId: string; number: number }): Promise<UploadTarget | null> => {
    const row = await tx.get<SubmissionRow & { is_suspended: number }>(
      `SELECT ${COLUMNS}, CASE WHEN EXISTS
         (SELECT 1 FROM account a WHERE a.id = account_id AND a.status = 'suspended') THEN 1 ELSE 0 END AS is_suspended
       FROM attachment_submission WHERE id = ?`,
      key.submissionId,
    );
    const file = await tx.get<FileRow>(
      `SELECT ${FILE_COLUMNS} FROM attachment_file WHERE submission_id = ? AND number = ?`,
      key.submissionId,
      key.number,
    );
    if (row === undefined || file === undefined) return null;
    const isSuspended = row.is_suspended === 1;
    return {
      accountId: row.account_id,
      expiresAt: row.expires_at,
      usedAt: row.used_at,
      isSuspended,
      file: fileOf(file),
    };
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
export interface SubmissionUse {
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
export async function takeSubmission(tx: Transaction, use: SubmissionUse): Promise<boolean> {
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

/** Undoes `takeSubmission` in the same transaction, when nothing was accepted after all. */
export async function giveBackSubmission(tx: Transaction, use: SubmissionUse): Promise<void> {
  await tx.run('UPDATE attachment_submission SET used_at = NULL WHERE id = ?', use.submissionId);
}

/** Records that the email is made of the submission's files, which then stay as long as its content does. */
export async function bindFiles(tx: Transaction, submissionId: string, emailSeq: number): Promise<void> {
  await tx.run('INSERT INTO attachment_use (email_seq, submission_id) VALUES (?, ?)', emailSeq, submissionId);
}

/**
 * Registering a manifest: once for each key, with a new expiry once the old one has passed, and so many open submissions for an
 * account at most. A key counts until a day after the send it led to, and as long as that message is on its way.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { COLUMNS, FILE_COLUMNS, type SubmissionRow, withFiles } from './store.ts';
import type { Submission, SubmissionFile } from './submission.ts';

export interface Registration {
  /** For a submission that is made now. */
  id: string;
  accountId: string;
  mode: Mode;
  idempotencyKey: string | null;
  manifestHash: Uint8Array;
  nowMs: number;
  /** When URLs that are given out now expire. */
  expiresAtMs: number;
  /** Open submissions that the account may have in this mode. */
  maximumOpen: number;
  /** A key of a submission that was used before this no longer counts, once its message is settled. */
  keysFromMs: number;
  files: SubmissionFile[];
}

export type Registered =
  | { outcome: 'made' | 'same'; submission: Submission }
  /** The key stands for another manifest. */
  | { outcome: 'other-manifest' }
  | { outcome: 'too-many' };

/** Makes the submission, or finds the one that the key stands for and gives it a new expiry when the old one has passed. */
export const registerOperation = operation(
  'attachments.register',
  'write',
  async (tx, registration: Registration): Promise<Registered> => {
    const known = await knownSubmission(tx, registration);
    if (known !== undefined) return known;
    if ((await openSubmissions(tx, registration)) >= registration.maximumOpen) return { outcome: 'too-many' };
    if (!(await insertSubmission(tx, registration))) {
      // Another node registered the key in this moment.
      const other = await knownSubmission(tx, registration);
      if (other === undefined) throw new Error('a submission was neither there nor could it be made');
      return other;
    }
    for (const file of registration.files) await insertFile(tx, registration.id, file);
    const { id, accountId, mode, idempotencyKey, expiresAtMs, files } = registration;
    const made = { id, accountId, mode, idempotencyKey, expiresAt: expiresAtMs, version: 0, usedAt: null, files };
    return { outcome: 'made', submission: made };
  },
);

async function knownSubmission(tx: Transaction, registration: Registration): Promise<Registered | undefined> {
  const { accountId, mode, idempotencyKey, manifestHash, nowMs, expiresAtMs } = registration;
  if (idempotencyKey === null) return undefined;
  const row = await tx.get<SubmissionRow>(
    `SELECT ${COLUMNS} FROM attachment_submission WHERE account_id = ? AND mode = ? AND idempotency_key = ?`,
    accountId,
    mode,
    idempotencyKey,
  );
  if (row === undefined) return undefined;
  if (await isKeySpent(tx, row, registration.keysFromMs)) {
    await tx.run('UPDATE attachment_submission SET idempotency_key = NULL WHERE id = ?', row.id);
    return undefined;
  }
  if (Buffer.compare(row.manifest_hash, manifestHash) !== 0) return { outcome: 'other-manifest' };
  if (row.used_at === null && row.expires_at <= nowMs) {
    await tx.run('UPDATE attachment_submission SET expires_at = ? WHERE id = ?', expiresAtMs, row.id);
    row.expires_at = expiresAtMs;
  }
  return { outcome: 'same', submission: await withFiles(tx, row) };
}

/** A key is kept for its time, and never dropped before the message it led to is settled. */
async function isKeySpent(tx: Transaction, row: SubmissionRow, keysFromMs: number): Promise<boolean> {
  if (row.used_at === null || row.used_at > keysFromMs) return false;
  const unfinished = await tx.get(
    `SELECT 1 AS found FROM attachment_use u JOIN message m ON m.email_seq = u.email_seq
     WHERE u.submission_id = ? AND m.status IN ('scheduled', 'queued', 'sending', 'delayed') LIMIT 1`,
    row.id,
  );
  return unfinished === undefined;
}

async function openSubmissions(tx: Transaction, { accountId, mode, maximumOpen }: Registration): Promise<number> {
  const row = await tx.get<{ n: number }>(
    `SELECT count(*) AS n FROM
       (SELECT 1 AS one FROM attachment_submission WHERE account_id = ? AND mode = ? AND used_at IS NULL LIMIT ?) o`,
    accountId,
    mode,
    maximumOpen,
  );
  return row?.n ?? 0;
}

async function insertSubmission(tx: Transaction, registration: Registration): Promise<boolean> {
  const inserted = await tx.run(
    `INSERT INTO attachment_submission
       (id, account_id, mode, idempotency_key, manifest_hash, expires_at, version, used_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, 0, NULL, ?) ON CONFLICT DO NOTHING`,
    registration.id,
    registration.accountId,
    registration.mode,
    registration.idempotencyKey,
    registration.manifestHash,
    registration.expiresAtMs,
    registration.nowMs,
  );
  return inserted === 1;
}

async function insertFile(tx: Transaction, submissionId: string, file: SubmissionFile): Promise<void> {
  await tx.run(
    `INSERT INTO attachment_file (submission_id, ${FILE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    submissionId,
    file.number,
    file.name,
    file.contentType,
    file.sizeBytes,
    file.sha256,
    file.direct ? 1 : 0,
    file.blobKey,
  );
}

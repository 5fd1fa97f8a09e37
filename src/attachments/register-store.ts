/**
 * Registers a manifest: once per key, with a new expiry after the old one has passed, and only while the unsent files of the account are
 * within their limits of bytes and number. A key is valid until a day after the send it was used for, and while that message is not
 * settled. The account's row is locked, so that concurrent registrations are counted.
 */
import type { Mode } from '../base/mode.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { BATCH_COLUMNS, type BatchFile, type BatchRow, type UploadBatch, withFiles } from './store.ts';

export interface Registration {
  id: string;
  accountId: string;
  mode: Mode;
  idempotencyKey: string | null;
  manifestHash: Uint8Array;
  nowMs: number;
  /** Expiry of URLs issued now. */
  expiresAtMs: number;
  /** Bytes that it counts for while it is not sent. */
  countedBytes: number;
  /** Maximum bytes of the account's unsent submissions in this mode, including this one. */
  maximumUnsentBytes: number;
  keepUnsentMs: number;
  /**
   * Whether an email could contain the files and can be accepted now; otherwise an existing submission may be found by its key, but none is
   * created.
   */
  fits: boolean;
  /** The key of a submission used before this time is no longer valid once its message is settled. */
  keysFromMs: number;
  files: BatchFile[];
}

export type Registered =
  | { outcome: 'made' | 'same'; submission: UploadBatch }
  /** The key belongs to another manifest. */
  | { outcome: 'other-manifest' }
  | { outcome: 'does-not-fit' }
  /** The account is at its limit until the first of its unsent submissions no longer counts (Unix ms). */
  | { outcome: 'no-room'; roomAtMs: number }
  | { outcome: 'too-many'; reached: LimitReached };

/** If a key is registered or deleted concurrently, the lookup is repeated. */
const LOOKS = 3;

/** Creates the submission, or finds the one with this key and renews its expiry if it has passed. */
export const registerOperation = operation(
  'attachments.register',
  'write',
  async (tx, registration: Registration): Promise<Registered> => {
    for (let look = 0; look < LOOKS; look += 1) {
      const known = await knownBatch(tx, registration);
      if (known !== undefined) return known;
      if (!registration.fits) return { outcome: 'does-not-fit' };
      const full = await withoutRoom(tx, registration, registration.countedBytes);
      if (full !== undefined) return full;
      if (await insertBatch(tx, registration)) return made(tx, registration);
    }
    throw new Error('the submission was not found and could not be created');
  },
);

async function made(tx: Transaction, registration: Registration): Promise<Registered> {
  for (const file of registration.files) await insertFile(tx, registration.id, file);
  const { id, accountId, mode, idempotencyKey, expiresAtMs, files } = registration;
  const submission = { id, accountId, mode, idempotencyKey, expiresAt: expiresAtMs, version: 0, usedAt: null, files };
  return { outcome: 'made', submission };
}

type KnownRow = BatchRow & { countedBytes: number; hasFiles: number };

async function knownBatch(tx: Transaction, registration: Registration): Promise<Registered | undefined> {
  const { accountId, mode, idempotencyKey, manifestHash, nowMs, expiresAtMs } = registration;
  if (idempotencyKey === null) return undefined;
  const row = await tx.get<KnownRow>(
    `SELECT ${BATCH_COLUMNS}, counted_bytes AS "countedBytes", has_files AS "hasFiles" FROM attachment_submission
     WHERE account_id = ? AND mode = ? AND idempotency_key = ?`,
    accountId,
    mode,
    idempotencyKey,
  );
  if (row === undefined) return undefined;
  if (await isKeySpent(tx, row, registration.keysFromMs)) {
    await tx.run('UPDATE attachment_submission SET idempotency_key = NULL WHERE id = ?', row.id);
    return undefined;
  }
  if (Buffer.compare(row.manifestHash, manifestHash) !== 0) return { outcome: 'other-manifest' };
  if (row.usedAt === null && row.expiresAt <= nowMs) {
    // A submission that had stopped counting counts again.
    const full = row.hasFiles === 1 ? undefined : await withoutRoom(tx, registration, row.countedBytes);
    if (full !== undefined) return full;
    const renewed = await tx.run('UPDATE attachment_submission SET expires_at = ? WHERE id = ?', expiresAtMs, row.id);
    // Housekeeping of another node deleted it at this moment.
    if (renewed === 0) return undefined;
    row.expiresAt = expiresAtMs;
  }
  return { outcome: 'same', submission: await withFiles(tx, row) };
}

/** A key is kept for its lifetime, and never dropped before its message is settled. */
async function isKeySpent(tx: Transaction, row: BatchRow, keysFromMs: number): Promise<boolean> {
  if (row.usedAt === null || row.usedAt > keysFromMs) return false;
  const unfinished = await tx.get(
    `SELECT 1 AS found FROM attachment_use u JOIN message m ON m.email_seq = u.email_seq
     WHERE u.submission_id = ? AND m.status IN ('scheduled', 'queued', 'sending', 'delayed') LIMIT 1`,
    row.id,
  );
  return unfinished === undefined;
}

interface Unsent {
  bytes: number;
  /** Unix ms, or null if there are none. */
  until: number | null;
}

/** Returns undefined if one more submission of this size is within the limits. */
async function withoutRoom(
  tx: Transaction,
  registration: Registration,
  bytes: number,
): Promise<Registered | undefined> {
  const { accountId, mode, nowMs, keepUnsentMs, maximumUnsentBytes } = registration;
  const reached = await checkLimit(tx, { accountId, limit: 'openSubmissions', nowMs });
  if (reached !== undefined) return { outcome: 'too-many', reached };
  const live = await tx.get<Unsent>(
    `SELECT CAST(COALESCE(sum(counted_bytes), 0) AS BIGINT) AS bytes,
       min(CASE WHEN has_files = 1 THEN expires_at + ? ELSE expires_at END) AS until
     FROM attachment_submission WHERE account_id = ? AND mode = ? AND used_at IS NULL AND expires_at > ?`,
    keepUnsentMs,
    accountId,
    mode,
    nowMs,
  );
  const stored = await tx.get<Unsent>(
    `SELECT CAST(COALESCE(sum(counted_bytes), 0) AS BIGINT) AS bytes, min(expires_at) + ? AS until
     FROM attachment_submission
     WHERE account_id = ? AND mode = ? AND used_at IS NULL AND has_files = 1 AND expires_at <= ?`,
    keepUnsentMs,
    accountId,
    mode,
    nowMs,
  );
  if ((live?.bytes ?? 0) + (stored?.bytes ?? 0) + bytes <= maximumUnsentBytes) return undefined;
  const ends = [live?.until ?? null, stored?.until ?? null].filter((end) => end !== null);
  return { outcome: 'no-room', roomAtMs: Math.min(...ends) };
}

async function insertBatch(tx: Transaction, registration: Registration): Promise<boolean> {
  const inserted = await tx.run(
    `INSERT INTO attachment_submission
       (id, account_id, mode, idempotency_key, manifest_hash, expires_at, version, used_at, created_at, counted_bytes, has_files)
     VALUES (?, ?, ?, ?, ?, ?, 0, NULL, ?, ?, ?) ON CONFLICT DO NOTHING`,
    registration.id,
    registration.accountId,
    registration.mode,
    registration.idempotencyKey,
    registration.manifestHash,
    registration.expiresAtMs,
    registration.nowMs,
    registration.countedBytes,
    // Bytes that are uploaded directly to blob storage may exist without Postrider knowing.
    registration.files.some((file) => file.direct) ? 1 : 0,
  );
  return inserted === 1;
}

async function insertFile(tx: Transaction, submissionId: string, file: BatchFile): Promise<void> {
  await tx.run(
    `INSERT INTO attachment_file
       (submission_id, number, name, content_type, size_bytes, sha256, direct, blob_key, blob_stamp)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    submissionId,
    file.number,
    file.name,
    file.contentType,
    file.sizeBytes,
    file.sha256,
    file.direct ? 1 : 0,
    file.blobKey,
    file.blobStamp,
  );
}

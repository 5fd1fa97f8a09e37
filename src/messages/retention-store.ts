/**
 * Removes what is kept no longer, a bounded number of rows at a time so that nobody waits behind it. Messages that are not
 * finished, and whatever belongs to them, are never removed, however old they are.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { UNFINISHED } from './message.ts';

export interface RetentionBatch {
  /** Unix ms; what counts from before it is removed. */
  beforeMs: number;
  /** Rows looked at in this call. */
  limit: number;
}

export interface Removed {
  count: number;
  /** Blobs that nothing names any more. */
  blobKeys: string[];
}

export interface ContentBatch extends RetentionBatch {
  /** The same for content that is kept 7 days: earlier than `beforeMs` where the operator keeps content for less than 30 days. */
  beforeOf7DaysMs: number;
}

/** Content of finished emails whose time is over. */
export const removeContentOperation = operation(
  'messages.removeContent',
  'write',
  async (tx, batch: ContentBatch): Promise<Removed> => {
    const rows = await tx.all<{ seq: number; blob_key: string | null; content_until: number }>(
      `SELECT seq, blob_key, content_until FROM email
       WHERE content_until IS NOT NULL AND content_until <= ? AND (retain <> '7d' OR content_until <= ?) AND NOT EXISTS
         (SELECT 1 FROM message WHERE email_seq = email.seq AND status IN ${UNFINISHED})
       ORDER BY content_until LIMIT ?`,
      batch.beforeMs,
      batch.beforeOf7DaysMs,
      batch.limit,
    );
    const blobKeys: string[] = [];
    for (const row of rows) {
      // A message that was moved at this moment keeps its content for longer.
      const removed = await tx.run(
        'UPDATE email SET content = NULL, blob_key = NULL, content_until = NULL WHERE seq = ? AND content_until = ?',
        row.seq,
        row.content_until,
      );
      if (removed === 1 && row.blob_key !== null) blobKeys.push(row.blob_key);
    }
    return { count: rows.length, blobKeys };
  },
);

export interface EmailsBatch extends RetentionBatch {
  /** Number of the last email that was looked at. */
  afterSeq: number;
}

/**
 * Whole emails, oldest first, with all their messages, events and attempts; `count` is that of emails. `lastSeq` is where
 * to go on, or null when no email is old enough any more.
 */
export const removeEmailsOperation = operation(
  'messages.removeEmails',
  'write',
  async (tx, batch: EmailsBatch): Promise<Removed & { lastSeq: number | null }> => {
    // Emails are numbered in order of acceptance, so that the oldest are the first of the table. The sandbox changes its
    // messages at times that may be far ahead: they count from their acceptance alone.
    const rows = await tx.all<{ seq: number; blob_key: string | null; created_at: number; unfinished: number }>(
      `SELECT seq, blob_key, created_at, CASE WHEN EXISTS (SELECT 1 FROM message m WHERE m.email_seq = e.seq
         AND (m.status IN ${UNFINISHED} OR (m.mode = 'live' AND m.updated_at > ?))) THEN 1 ELSE 0 END AS unfinished
       FROM email e WHERE seq > ? ORDER BY seq LIMIT ?`,
      batch.beforeMs,
      batch.afterSeq,
      batch.limit,
    );
    const old = rows.filter((row) => row.created_at <= batch.beforeMs && row.unfinished === 0);
    for (const row of old) await removeEmail(tx, row.seq);
    const last = rows.at(-1);
    const more = last !== undefined && rows.length === batch.limit && last.created_at <= batch.beforeMs;
    return {
      count: old.length,
      blobKeys: old.flatMap((row) => (row.blob_key === null ? [] : [row.blob_key])),
      lastSeq: more ? last.seq : null,
    };
  },
);

async function removeEmail(tx: Transaction, seq: number): Promise<void> {
  const messages = await tx.all<{ account_id: string; mode: Mode; id: string }>(
    'SELECT account_id, mode, id FROM message WHERE email_seq = ?',
    seq,
  );
  for (const { account_id, mode, id } of messages) {
    await tx.run('DELETE FROM event WHERE message_id = ?', id);
    await tx.run('DELETE FROM attempt WHERE account_id = ? AND message_id = ?', account_id, id);
    await tx.run('DELETE FROM sandbox_item WHERE account_id = ? AND message_id = ?', account_id, id);
    await tx.run('DELETE FROM message WHERE account_id = ? AND mode = ? AND id = ?', account_id, mode, id);
  }
  await tx.run('DELETE FROM email WHERE seq = ?', seq);
}

async function namesOf(tx: Transaction, keys: string[]): Promise<string[]> {
  if (keys.length === 0) return [];
  const places = keys.map(() => '?').join(', ');
  const rows = await tx.all<{ blob_key: string }>(`SELECT blob_key FROM email WHERE blob_key IN (${places})`, ...keys);
  return rows.map((row) => row.blob_key);
}

/** Which of these blobs some row names. */
export const namedBlobsOperation = operation('messages.namedBlobs', 'read', namesOf);

/**
 * The same, asked where rows are written: whatever a reader may have missed, here every row is seen that was ever
 * committed. For the last look before a blob is removed.
 */
export const stillNamedBlobsOperation = operation('messages.stillNamedBlobs', 'write', namesOf);

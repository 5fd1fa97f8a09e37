/**
 * Removes data whose retention has ended, a limited number of rows at a time so that other transactions are not delayed. Unfinished
 * messages, and everything that belongs to them, are never removed, however old they are.
 */
import type { Mode } from '../base/mode.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { UNFINISHED } from './message.ts';

interface RetentionBatch {
  /** Unix ms; anything older is removed. */
  beforeMs: number;
  /** Rows to examine in this call. */
  limit: number;
}

export interface Removed {
  count: number;
  /** Blobs that no row names any more. */
  blobKeys: string[];
}

interface ContentBatch extends RetentionBatch {
  /** The limit for content that is kept 7 days; earlier than `beforeMs` if the operator keeps content for less than 30 days. */
  beforeOf7DaysMs: number;
}

/** Removes the content of finished emails whose retention has ended. */
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
      // A message that was rescheduled at the same moment keeps its content for longer.
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

interface EmailsBatch extends RetentionBatch {
  /** Number of the last email that was examined. */
  afterSeq: number;
}

/**
 * Removes emails, oldest first, with all their messages, events, and attempts; `count` is the number of emails. `lastSeq` is where to
 * continue, or null if no other email is old enough.
 */
export const removeEmailsOperation = operation(
  'messages.removeEmails',
  'write',
  async (tx, batch: EmailsBatch): Promise<Removed & { lastSeq: number | null }> => {
    // Emails are numbered in order of acceptance, so the oldest come first. The sandbox clock may be far ahead, so sandbox messages expire
    // by their time of acceptance alone.
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

/** Removes an email with all of its messages, their events, and attempts; returns how many messages. */
export async function removeEmail(tx: Transaction, seq: number): Promise<number> {
  const messages = await tx.all<{ account_id: string; mode: Mode; id: string }>(
    'SELECT account_id, mode, id FROM message WHERE email_seq = ?',
    seq,
  );
  for (const { account_id, mode, id } of messages) {
    await tx.run('DELETE FROM event WHERE message_id = ?', id);
    await tx.run('DELETE FROM attempt WHERE account_id = ? AND message_id = ?', account_id, id);
    await tx.run('DELETE FROM sandbox_item WHERE account_id = ? AND message_id = ?', account_id, id);
    await tx.run('DELETE FROM message WHERE account_id = ? AND mode = ? AND id = ?', account_id, mode, id);
    await tx.run('DELETE FROM message_share WHERE message_id = ?', id);
  }
  await tx.run('DELETE FROM email WHERE seq = ?', seq);
  return messages.length;
}

async function namesOf(tx: Transaction, keys: string[]): Promise<string[]> {
  if (keys.length === 0) return [];
  const places = keys.map(() => '?').join(', ');
  const rows = await tx.all<{ blob_key: string }>(`SELECT blob_key FROM email WHERE blob_key IN (${places})`, ...keys);
  return rows.map((row) => row.blob_key);
}

/** Returns which of these blobs are named by a row. */
export const namedBlobsOperation = operation('messages.namedBlobs', 'read', namesOf);

/**
 * The same, as a write operation: it sees every committed row, including any that a reader might miss. This is the final check before a
 * blob is removed.
 */
export const stillNamedBlobsOperation = operation('messages.stillNamedBlobs', 'write', namesOf);

/**
 * Removes the content of these emails and their uploaded files. The files are removed once no other email with content uses them; their
 * upload batch stays for a while without them. Files that two concurrent transactions leave to each other are found by housekeeping. Skips
 * an email while one of its messages is queued. Returns the blobs to remove, by email.
 */
export async function dropContents(tx: Transaction, emailSeqs: readonly number[]): Promise<Map<number, string[]>> {
  const blobs = new Map<number, string[]>();
  if (emailSeqs.length === 0) return blobs;
  const numbers = [...new Set(emailSeqs)].sort((a, b) => a - b);
  const requested = rowset(
    tx,
    'requested',
    { seq: 'int' },
    numbers.map((seq) => ({ seq })),
  );
  // The bounds tell the planner which partitions to read.
  const these = `email.seq IN (SELECT requested.seq FROM ${requested.sql}) AND email.seq >= ? AND email.seq <= ?`;
  const params = [...requested.params, numbers[0]!, numbers.at(-1)!];
  // If two copies are settled at the same time, the later one sees in its second statement that the other is finished.
  const held = locked(tx);
  if (held !== '') await tx.all(`SELECT 1 AS found FROM email WHERE ${these} ORDER BY seq ${held}`, ...params);
  const rows = await tx.all<{ seq: number; blob_key: string | null }>(
    `SELECT seq, blob_key FROM email WHERE ${these} AND NOT EXISTS
       (SELECT 1 FROM message WHERE email_seq = email.seq AND status IN ${UNFINISHED})`,
    ...params,
  );
  const dropped = rowset(tx, 'dropped', { seq: 'int' }, rows);
  await tx.run(
    `UPDATE email SET content = NULL, blob_key = NULL, content_until = NULL
     WHERE seq IN (SELECT dropped.seq FROM ${dropped.sql}) AND seq >= ? AND seq <= ?`,
    ...dropped.params,
    numbers[0]!,
    numbers.at(-1)!,
  );
  for (const { seq, blob_key } of rows) {
    const files = await dropFiles(tx, seq);
    blobs.set(seq, blob_key === null ? files : [blob_key, ...files]);
  }
  return blobs;
}

/** Returns the blobs that no row names any more. */
async function dropFiles(tx: Transaction, emailSeq: number): Promise<string[]> {
  const uses = await tx.all<{ submission_id: string }>(
    `SELECT submission_id FROM attachment_use u WHERE email_seq = ? AND NOT EXISTS
       (SELECT 1 FROM attachment_use o JOIN email e ON e.seq = o.email_seq
        WHERE o.submission_id = u.submission_id AND e.content_until IS NOT NULL)`,
    emailSeq,
  );
  const blobKeys: string[] = [];
  for (const { submission_id: id } of uses) {
    const files = await tx.all<{ blob_key: string }>(
      'SELECT blob_key FROM attachment_file WHERE submission_id = ? AND blob_key IS NOT NULL ORDER BY number',
      id,
    );
    await tx.run('UPDATE attachment_file SET blob_key = NULL WHERE submission_id = ?', id);
    blobKeys.push(...files.map((file) => file.blob_key));
  }
  return blobKeys;
}

interface KeptAnswer {
  accountId: string;
  mode: Mode;
  /** The stored response body of POST /send or POST /send/batch. */
  body: string;
}

interface SendAnswer {
  data?: { recipients?: { messageId?: unknown }[] };
}

function messagesOf(body: string): { id: string }[] {
  const parsed = JSON.parse(body) as SendAnswer & { results?: SendAnswer[] };
  const answers = parsed.results ?? [parsed];
  return answers.flatMap((answer) =>
    (answer.data?.recipients ?? []).flatMap(({ messageId }) =>
      typeof messageId === 'string' ? [{ id: messageId }] : [],
    ),
  );
}

/**
 * Returns whether the response of an idempotency key must be kept beyond its time because one of its messages is unfinished. The message
 * ids come from the response itself, for single sends and batches alike, so a message that was rescheduled keeps the response too.
 */
export async function hasUnfinishedMessages(tx: Transaction, { accountId, mode, body }: KeptAnswer): Promise<boolean> {
  const named = rowset(tx, 'named', { id: 'text' }, messagesOf(body));
  const found = await tx.get(
    `SELECT 1 AS found FROM ${named.sql} JOIN message m ON m.account_id = ? AND m.mode = ? AND m.id = named.id
     WHERE m.status IN ${UNFINISHED} LIMIT 1`,
    ...named.params,
    accountId,
    mode,
  );
  return found !== undefined;
}

/**
 * Idempotency records outside the transaction of an acceptance: reading them before a request is run, and keeping the
 * answer of a whole batch.
 */
import type { Mode } from '../base/mode.ts';
import { hasUnfinishedMessages } from '../messages/messages.ts';
import { operation } from '../storage/operation.ts';

/** A key, unique within its account, mode and endpoint. */
export interface IdempotencyKey {
  accountId: string;
  mode: Mode;
  endpoint: string;
  key: string;
}

export interface StoredAnswer {
  bodyHash: Uint8Array;
  status: number;
  body: string;
}

interface RecordRow {
  body_hash: Uint8Array;
  status: number;
  body: string;
  expires_at: number;
}

/** The stored answer; past its time only as long as one of its messages is still to be tried. */
export const storedAnswerOperation = operation(
  'idempotency.storedAnswer',
  'read',
  async (tx, args: IdempotencyKey & { nowMs: number }): Promise<StoredAnswer | null> => {
    const row = await tx.get<RecordRow>(
      `SELECT body_hash, status, body, expires_at FROM idempotency
       WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?`,
      args.accountId,
      args.mode,
      args.endpoint,
      args.key,
    );
    if (row === undefined) return null;
    if (row.expires_at <= args.nowMs && !(await hasUnfinishedMessages(tx, { ...args, body: row.body }))) return null;
    return { bodyHash: row.body_hash, status: row.status, body: row.body };
  },
);

export interface BatchAnswer {
  key: IdempotencyKey;
  answer: StoredAnswer;
  /** One message of each email that was accepted; all copies of an email expire together. */
  messageIds: string[];
  nowMs: number;
  /** The least time to keep it. */
  expiresAtMs: number;
}

/** Keeps the answer of a whole batch until its messages have expired; they have records of their own. */
export const keepAnswerOperation = operation(
  'idempotency.keepAnswer',
  'write',
  async (tx, args: BatchAnswer): Promise<void> => {
    const last = await tx.get<{ expires_at: number | null }>(
      `SELECT max(expires_at) AS expires_at FROM message WHERE account_id = ? AND mode = ?
         AND id IN (${args.messageIds.map(() => '?').join(', ')})`,
      args.key.accountId,
      args.key.mode,
      ...args.messageIds,
    );
    await tx.run(
      `INSERT INTO idempotency (account_id, mode, endpoint, key, body_hash, status, body, email_seq, created_at, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)
       ON CONFLICT (account_id, mode, endpoint, key) DO UPDATE SET body_hash = excluded.body_hash,
         status = excluded.status, body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at`,
      args.key.accountId,
      args.key.mode,
      args.key.endpoint,
      args.key.key,
      args.answer.bodyHash,
      args.answer.status,
      args.answer.body,
      args.nowMs,
      Math.max(args.expiresAtMs, last?.expires_at ?? 0),
    );
  },
);

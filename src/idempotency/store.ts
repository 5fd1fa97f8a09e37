/**
 * The records of idempotency keys: one key stands for one acceptance. A record past its time counts as long as one of the
 * messages that its answer names is unfinished; then it makes way for a new one, or is removed.
 */
import type { Mode } from '../base/mode.ts';
import { hasUnfinishedMessages, lastExpiryOf } from '../messages/messages.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, table } from '../storage/rows.ts';

export const IDEMPOTENCY = table('idempotency', {
  accountId: 'text',
  mode: 'text',
  endpoint: 'text',
  key: 'text',
  bodyHash: 'bytes',
  status: 'int',
  body: 'text',
  emailSeq: 'int?',
  createdAt: 'int',
  expiresAt: 'int',
});

/** A key, unique within its account, mode and endpoint. */
export interface IdempotencyKey {
  accountId: string;
  mode: Mode;
  endpoint: string;
  key: string;
}

const OF_KEY = 'account_id = ? AND mode = ? AND endpoint = ? AND key = ?';
const valuesOf = ({ accountId, mode, endpoint, key }: IdempotencyKey) => [accountId, mode, endpoint, key] as const;

/** What an acceptance records under its key. */
export interface IdempotencyRecord {
  endpoint: string;
  key: string;
  bodyHash: Uint8Array;
  status: number;
  expiresAtMs: number;
}

/** As one text. */
export function keyText(key: IdempotencyKey): string {
  return JSON.stringify(valuesOf(key));
}

/** Those of the keys, as texts, that stand for an answer already. Records that no longer count are removed. */
export async function keysInUse(tx: Transaction, keys: readonly IdempotencyKey[], nowMs: number): Promise<Set<string>> {
  const inUse = new Set<string>();
  if (keys.length === 0) return inUse;
  const asked = rowset(tx, 'asked', { accountId: 'text', mode: 'text', endpoint: 'text', key: 'text' }, keys);
  const rows = await tx.all<IdempotencyKey & { expired: string | null }>(
    `SELECT i.account_id AS "accountId", i.mode, i.endpoint, i.key,
       CASE WHEN i.expires_at <= CAST(? AS BIGINT) THEN i.body END AS expired
     FROM ${asked.sql} JOIN idempotency i ON i.account_id = asked.account_id AND i.mode = asked.mode
       AND i.endpoint = asked.endpoint AND i.key = asked.key`,
    ...[nowMs, ...asked.params],
  );
  for (const { expired, ...row } of rows) {
    if (expired === null || (await hasUnfinishedMessages(tx, { ...row, body: expired }))) inUse.add(keyText(row));
    else await tx.run(`DELETE FROM idempotency WHERE ${OF_KEY}`, ...valuesOf(row));
  }
  return inUse;
}

export interface StoredAnswer {
  bodyHash: Uint8Array;
  status: number;
  body: string;
}

/** The stored answer of a key; null where there is none that counts. */
export const storedAnswerOperation = operation(
  'idempotency.storedAnswer',
  'read',
  async (tx, { nowMs, ...key }: IdempotencyKey & { nowMs: number }): Promise<StoredAnswer | null> => {
    const row = await tx.get<StoredAnswer & { expiresAt: number }>(
      `SELECT body_hash AS "bodyHash", status, body, expires_at AS "expiresAt" FROM idempotency WHERE ${OF_KEY}`,
      ...valuesOf(key),
    );
    if (row === undefined) return null;
    const { expiresAt, ...answer } = row;
    return expiresAt > nowMs || (await hasUnfinishedMessages(tx, { ...key, body: answer.body })) ? answer : null;
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
  async (tx, { key, answer, messageIds, nowMs, expiresAtMs }: BatchAnswer): Promise<void> => {
    const { accountId, mode, endpoint, key: name } = key;
    const expiresAt = Math.max(expiresAtMs, await lastExpiryOf(tx, { accountId, mode, messageIds }));
    const record = { accountId, mode, endpoint, key: name, ...answer, emailSeq: null, createdAt: nowMs, expiresAt };
    await insertMany(
      tx,
      IDEMPOTENCY,
      [record],
      `ON CONFLICT (account_id, mode, endpoint, key) DO UPDATE SET body_hash = excluded.body_hash,
         status = excluded.status, body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at`,
    );
  },
);

/** A record in the order of expiry. */
export interface ExpiredRecord extends IdempotencyKey {
  expiresAt: number;
}

export interface ExpiredBatch {
  /** Unix ms; what expired by then is removed. */
  beforeMs: number;
  limit: number;
  /** The last record that was looked at; null for the first batch. */
  after: ExpiredRecord | null;
}

const BEFORE_ALL: ExpiredRecord = { expiresAt: 0, accountId: '', mode: 'live', endpoint: '', key: '' };

/** Removes records that no longer count; others are passed over. `next` is where to go on, or null at the end. */
export const removeExpiredOperation = operation(
  'idempotency.removeExpired',
  'write',
  async (tx, { beforeMs, limit, after }: ExpiredBatch): Promise<{ count: number; next: ExpiredRecord | null }> => {
    const last = after ?? BEFORE_ALL;
    const rows = await tx.all<ExpiredRecord & { body: string }>(
      `SELECT expires_at AS "expiresAt", account_id AS "accountId", mode, endpoint, key, body FROM idempotency
       WHERE expires_at <= ? AND (expires_at, account_id, mode, endpoint, key) > (?, ?, ?, ?, ?)
       ORDER BY expires_at, account_id, mode, endpoint, key LIMIT ?`,
      ...[beforeMs, last.expiresAt, ...valuesOf(last), limit],
    );
    let count = 0;
    for (const row of rows) {
      if (await hasUnfinishedMessages(tx, row)) continue;
      // The key may have been used again at this moment.
      count += await tx.run(
        `DELETE FROM idempotency WHERE ${OF_KEY} AND expires_at <= ?`,
        ...[...valuesOf(row), beforeMs],
      );
    }
    const end = rows.length < limit ? undefined : rows.at(-1);
    if (end === undefined) return { count, next: null };
    const { body: _, ...next } = end;
    return { count, next };
  },
);

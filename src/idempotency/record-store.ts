/** The records of idempotency keys within the transaction that accepts their mail: one key stands for one acceptance. */
import { hasUnfinishedMessages } from '../messages/messages.ts';
import type { Transaction } from '../storage/operation.ts';
import { rowset, table } from '../storage/rows.ts';
import type { IdempotencyKey } from './store.ts';

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

/** What an acceptance records under its key. */
export interface IdempotencyRecord {
  endpoint: string;
  key: string;
  bodyHash: Uint8Array;
  status: number;
  expiresAtMs: number;
}

/** As one text. */
export function keyText({ accountId, mode, endpoint, key }: IdempotencyKey): string {
  return JSON.stringify([accountId, mode, endpoint, key]);
}

/**
 * Those of the keys, as texts, that stand for an answer already. A record past its time counts as long as a message of its answer is
 * unfinished; otherwise it makes way here.
 */
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
    if (expired === null || (await hasUnfinishedMessages(tx, { ...row, body: expired }))) {
      inUse.add(keyText(row));
      continue;
    }
    await tx.run(
      'DELETE FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?',
      ...[row.accountId, row.mode, row.endpoint, row.key],
    );
  }
  return inUse;
}

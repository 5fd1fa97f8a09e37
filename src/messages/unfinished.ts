/**
 * Whether the answer that an idempotency key was given has to be kept past its time: as long as one of the messages that it
 * names is still to be tried. The answer itself says which these are, for one send and for a batch alike, so that a message
 * that was moved to a later time afterwards keeps the answer too.
 */
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { UNFINISHED } from './message.ts';

export interface KeptAnswer {
  accountId: string;
  mode: Mode;
  /** The stored body: of POST /send, or of POST /send/batch. */
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

/** When the last of the messages expires, in Unix ms; 0 where there is none. */
export async function lastExpiryOf(
  tx: Transaction,
  { accountId, mode, messageIds }: { accountId: string; mode: Mode; messageIds: readonly string[] },
): Promise<number> {
  const row = await tx.get<{ expires_at: number | null }>(
    `SELECT max(expires_at) AS expires_at FROM message WHERE account_id = ? AND mode = ?
       AND id IN (${messageIds.map(() => '?').join(', ')})`,
    ...[accountId, mode, ...messageIds],
  );
  return row?.expires_at ?? 0;
}

export async function hasUnfinishedMessages(tx: Transaction, { accountId, mode, body }: KeptAnswer): Promise<boolean> {
  const named = rowset(tx, 'named', { id: 'text' }, messagesOf(body));
  const found = await tx.get(
    `SELECT 1 AS found FROM ${named.sql} JOIN message m ON m.account_id = ? AND m.mode = ? AND m.id = named.id
     WHERE m.status IN ${UNFINISHED} LIMIT 1`,
    ...[...named.params, accountId, mode],
  );
  return found !== undefined;
}

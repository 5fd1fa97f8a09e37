/**
 * The virtual inbox: what the sandbox captured for one account, newest first, at most the last 1,000 messages and seven days, even if older
 * ones are not removed yet.
 */

import { change } from '../audit/audit.ts';
import type { StoredContent } from '../storage/blobs/stored-content.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset, table } from '../storage/rows.ts';
import { addressFilter, partFilter } from '../storage/text-filter.ts';

const INBOX_MESSAGES = 1_000;
export const INBOX_MS = 7 * 86_400_000;

/** What the inbox stores of a message. */
export const SANDBOX_ITEM = table('sandbox_item', {
  accountId: 'text',
  messageId: 'text',
  emailSeq: 'int',
  recipient: 'text',
  outcome: 'text?',
  createdAt: 'int',
});

/** Sets the outcomes that the inbox shows for messages. */
export async function recordOutcomes(
  tx: Transaction,
  outcomes: readonly { accountId: string; messageId: string; outcome: string }[],
): Promise<void> {
  if (outcomes.length === 0) return;
  const made = rowset(tx, 'made', { accountId: 'text', messageId: 'text', outcome: 'text' }, outcomes);
  await tx.run(
    `UPDATE sandbox_item SET outcome = made.outcome FROM ${made.sql}
     WHERE sandbox_item.account_id = made.account_id AND sandbox_item.message_id = made.message_id`,
    ...made.params,
  );
}

export interface InboxRow {
  message_id: string;
  header_from: string;
  recipient: string;
  subject: string;
  outcome: string | null;
  created_at: number;
}

export interface InboxPage {
  accountId: string;
  nowMs: number;
  /** Id of the last message seen. */
  before: string | null;
  limit: number;
  /** The complete address, in any spelling. */
  to: string | null;
  /** Part of the subject, without case. */
  subject: string | null;
  tag: string | null;
  /** Unix ms by the clock of the sandbox, inclusive. */
  sinceMs: number | null;
}

const KEPT = `i.account_id = ? AND i.created_at > ? AND i.message_id >= coalesce(
   (SELECT message_id FROM sandbox_item WHERE account_id = ? ORDER BY message_id DESC LIMIT 1 OFFSET ${INBOX_MESSAGES - 1}), '')`;

export const listInboxOperation = operation('sandbox.list', 'read', async (tx, page: InboxPage) => {
  const conditions = [KEPT];
  const params: SqlValue[] = [page.accountId, page.nowMs - INBOX_MS, page.accountId];
  const add = (condition: string, ...values: SqlValue[]): void => {
    if (values.includes(null)) return;
    conditions.push(condition);
    params.push(...values);
  };
  add('i.message_id < ?', page.before);
  add('i.created_at >= ?', page.sinceMs);
  const to = page.to === null ? undefined : addressFilter(page.to);
  const subject = page.subject === null ? undefined : partFilter(page.subject);
  for (const condition of [to?.condition(tx, 'i.recipient'), subject?.condition(tx, 'e.subject')])
    if (condition) add(condition.sql, ...condition.params);
  add("replace(e.tags, ?, '') <> e.tags", page.tag === null ? null : JSON.stringify(page.tag));
  // If SQL cannot decide a filter, all messages that may match are read, and an inbox has no more than INBOX_MESSAGES.
  const isExact = [to, subject].every((filter) => filter?.isExact !== false);
  const rows = await tx.all<InboxRow>(
    `SELECT i.message_id, e.header_from, i.recipient, e.subject, i.outcome, i.created_at
     FROM sandbox_item i JOIN email e ON e.seq = i.email_seq
     WHERE ${conditions.join(' AND ')} ORDER BY i.message_id DESC LIMIT ?`,
    ...params,
    isExact ? page.limit : INBOX_MESSAGES,
  );
  if (isExact) return rows;
  const isMatch = (row: InboxRow): boolean =>
    to?.matches(row.recipient) !== false && subject?.matches(row.subject) !== false;
  return rows.filter(isMatch).slice(0, page.limit);
});

export type InboxMail = InboxRow & StoredContent;

/** Returns one captured message with its content; undefined if the inbox does not have it. */
export const findInboxOperation = operation(
  'sandbox.find',
  'read',
  (tx, key: { accountId: string; messageId: string; nowMs: number }) =>
    tx.get<InboxMail>(
      `SELECT i.message_id, e.header_from, i.recipient, e.subject, i.outcome, i.created_at, e.content, e.blob_key,
         e.content_digest
       FROM sandbox_item i JOIN email e ON e.seq = i.email_seq WHERE ${KEPT} AND i.message_id = ?`,
      key.accountId,
      key.nowMs - INBOX_MS,
      key.accountId,
      key.messageId,
    ),
);

/** Empties the inbox but keeps the messages. Returns how many. */
export const clearInboxOperation = change(
  'sandbox.clear',
  (tx, accountId: string) => tx.run('DELETE FROM sandbox_item WHERE account_id = ?', accountId),
  { action: 'sandbox-inbox.clear', did: (_, items) => (items === 0 ? undefined : { items }) },
);

/** Removes inbox items that are too old, or beyond the newest `perAccount` of their account. */
export const removeSandboxItemsOperation = operation(
  'sandbox.removeItems',
  'write',
  async (tx, batch: { beforeMs: number; limit: number; perAccount: number }): Promise<number> => {
    let removed = await tx.run(
      `DELETE FROM sandbox_item WHERE (account_id, message_id) IN
         (SELECT account_id, message_id FROM sandbox_item WHERE created_at <= ? LIMIT ?)`,
      batch.beforeMs,
      batch.limit,
    );
    const full = await tx.all<{ account_id: string; n: number }>(
      'SELECT account_id, count(*) AS n FROM sandbox_item GROUP BY account_id HAVING count(*) > ? LIMIT 100',
      batch.perAccount,
    );
    for (const { account_id, n } of full) {
      removed += await tx.run(
        `DELETE FROM sandbox_item WHERE account_id = ? AND message_id IN
           (SELECT message_id FROM sandbox_item WHERE account_id = ? ORDER BY created_at, message_id LIMIT ?)`,
        account_id,
        account_id,
        Math.min(n - batch.perAccount, batch.limit),
      );
    }
    return removed;
  },
);

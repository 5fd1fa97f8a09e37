/**
 * Emails with all their copies. A composed email has several rows in `email` if recipients get different bytes; its copies share one
 * Message-ID and one time of acceptance. Ids of copies ascend in the order of the recipients: the first id is that of the email, and every
 * other id finds it.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { COLUMNS, type MessageKey } from './api-store.ts';
import type { MessageRow } from './message.ts';

/** A message as one copy of its email. */
export interface EmailCopy extends MessageRow {
  /** 2: a link was clicked; 1: the email was opened; null: neither is known. */
  engagement: number | null;
}

const ENGAGEMENT = `(SELECT max(CASE v.type WHEN 'Click' THEN 2 ELSE 1 END) FROM event v WHERE v.message_id = m.id
  AND v.account_id = m.account_id AND v.mode = m.mode AND v.type IN ('Open', 'Click')) AS engagement`;

/** SQL condition: two rows of `email` belong to the same composed email. */
export const sameEmail = (one: string, other: string): string =>
  `substr(${one}.header_message_id, 1, 200) = substr(${other}.header_message_id, 1, 200)
   AND ${one}.header_message_id = ${other}.header_message_id AND ${one}.account_id = ${other}.account_id
   AND ${one}.mode = ${other}.mode AND ${one}.created_at = ${other}.created_at`;

async function copiesOf(tx: Transaction, { accountId, mode, messageId }: MessageKey): Promise<EmailCopy[]> {
  return tx.all<EmailCopy>(
    `SELECT ${COLUMNS}, ${ENGAGEMENT} FROM message n JOIN email f ON f.seq = n.email_seq JOIN email e ON ${sameEmail('e', 'f')}
       JOIN message m ON m.account_id = e.account_id AND m.mode = e.mode AND m.email_seq = e.seq
       LEFT JOIN work w ON w.seq = m.work_seq
     WHERE n.account_id = ? AND n.mode = ? AND n.id = ? ORDER BY m.id`,
    accountId,
    mode,
    messageId,
  );
}

/** Finds all copies of the email of a message, in the order of the recipients; empty if the message does not exist. */
export const findEmailOperation = operation('messages.findEmail', 'read', (tx, key: MessageKey) => copiesOf(tx, key));

export interface EmailPage {
  accountId: string;
  mode: Mode;
  /** Ids of emails: reads those older than `before`, or newer than `after`; the newest ones if both are null. */
  before: string | null;
  after: string | null;
  limit: number;
}

/** Reads emails with their copies, newest first; if `after` is given, the ones nearest to it. */
export const listEmailsOperation = operation(
  'messages.listEmails',
  'read',
  async (tx, page: EmailPage): Promise<EmailCopy[][]> => {
    const { accountId, mode, before, after, limit } = page;
    const firsts = await tx.all<{ id: string }>(
      `SELECT m.id FROM message m JOIN email e ON e.seq = m.email_seq
       WHERE m.account_id = ? AND m.mode = ? AND m.id < ? AND m.id > ?
         AND NOT EXISTS (SELECT 1 FROM email f JOIN message o ON o.account_id = f.account_id AND o.mode = f.mode
           AND o.email_seq = f.seq WHERE ${sameEmail('f', 'e')} AND o.id < m.id)
       ORDER BY m.id ${after === null ? 'DESC' : 'ASC'} LIMIT ?`,
      accountId,
      mode,
      before ?? 'msg_~',
      after ?? '',
      limit,
    );
    if (after !== null) firsts.reverse();
    const emails: EmailCopy[][] = [];
    for (const { id } of firsts) emails.push(await copiesOf(tx, { accountId, mode, messageId: id }));
    return emails;
  },
);

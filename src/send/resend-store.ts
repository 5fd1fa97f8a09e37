/**
 * The acceptance of a mail whose uploaded files another email was made of before: they stay as long as the content of
 * either. Nothing is accepted when the other email has lost its content meanwhile, for its files go with it.
 */
import type { MessageKey } from '../messages/messages.ts';
import { locked, operation } from '../storage/operation.ts';
import { type Acceptance, type AcceptanceResult, acceptWithin } from './acceptance.ts';

export interface AcceptAgain {
  acceptance: Acceptance;
  /** A message of the email that is sent again. */
  of: MessageKey;
}

/** Undefined when the files are no longer kept. */
export const acceptAgainOperation = operation(
  'send.acceptAgain',
  'write',
  async (tx, { acceptance, of }: AcceptAgain): Promise<AcceptanceResult | undefined> => {
    // The lock keeps the removal of content, and with it that of the files, behind this transaction.
    const original = await tx.get<{ seq: number; content_until: number | null }>(
      `SELECT seq, content_until FROM email WHERE seq =
         (SELECT email_seq FROM message WHERE account_id = ? AND mode = ? AND id = ?) ${locked(tx)}`,
      of.accountId,
      of.mode,
      of.messageId,
    );
    if (!original || original.content_until === null) return undefined;
    const result = await acceptWithin(tx, acceptance);
    if (!result.stored) return result;
    await tx.run(
      `INSERT INTO attachment_use (email_seq, submission_id)
       SELECT m.email_seq, u.submission_id FROM message m, attachment_use u
       WHERE m.account_id = ? AND m.mode = ? AND m.id = ? AND u.email_seq = ?`,
      of.accountId,
      of.mode,
      result.recipients[0]!.messageId,
      original.seq,
    );
    return result;
  },
);

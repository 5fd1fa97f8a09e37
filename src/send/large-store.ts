/**
 * The transactions of mail with uploaded files. A send marks its submission as used and accepts the email together, or does neither. A
 * concurrent upload or send for the same submission changes the same row, so one of them detects the change.
 *
 * A message that is resent shares its files, if it has any, with the original: they stay as long as the content of either. If the original
 * lost its content, nothing is accepted, because its files went with it. The audit entry of the resend is part of the transaction.
 */
import { type BatchUse, bindFiles, markBatchUsed, unmarkBatchUsed } from '../attachments/attachments.ts';
import { change } from '../audit/audit.ts';
import type { MessageKey } from '../messages/messages.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { type Acceptance, type AcceptanceResult, acceptWithin, notStored } from './acceptance.ts';

interface LargeAcceptance {
  acceptance: Acceptance;
  use: BatchUse;
}

export interface LargeAcceptanceResult extends AcceptanceResult {
  /** The submission was used, changed, or removed since it was read; nothing was stored. */
  isSubmissionLost: boolean;
}

export const acceptLargeOperation = operation(
  'send.acceptLarge',
  'write',
  async (tx, { acceptance, use }: LargeAcceptance): Promise<LargeAcceptanceResult> => {
    if (!(await markBatchUsed(tx, use))) return { ...notStored(), isSubmissionLost: true };
    const result = await acceptWithin(tx, acceptance);
    if (result.stored) await bindFiles(tx, use.submissionId, await emailSeqOf(tx, acceptance));
    else await unmarkBatchUsed(tx, use);
    return { ...result, isSubmissionLost: false };
  },
);

async function emailSeqOf(tx: Transaction, { accountId, mode, emails }: Acceptance): Promise<number> {
  const messageId = emails[0]?.recipients[0]?.messageId ?? '';
  const row = await tx.get<{ email_seq: number }>(
    'SELECT email_seq FROM message WHERE account_id = ? AND mode = ? AND id = ?',
    accountId,
    mode,
    messageId,
  );
  if (row === undefined) throw new Error(`message ${messageId} is missing from the transaction that stored it`);
  return row.email_seq;
}

interface AcceptAgain {
  acceptance: Acceptance;
  /** A message of the email that is resent. */
  of: MessageKey;
}

/** Returns undefined if the content of the original is no longer kept. The audit entry has no address, because it outlives an erasure. */
export const acceptAgainOperation = change(
  'send.acceptAgain',
  async (tx, { acceptance, of }: AcceptAgain): Promise<AcceptanceResult | undefined> => {
    // The lock delays the removal of the content and its files until after this transaction.
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
  {
    action: 'message.resend',
    resourceId: ({ of }) => of.messageId,
    did: (_, result) => {
      if (!result?.stored) return undefined;
      const { messageId, status } = result.recipients[0]!;
      return { messageId, status };
    },
  },
);

/**
 * The transaction of a send whose files were uploaded before: the submission is marked as used and the email accepted
 * together, or neither is. An upload to or a send of the same submission at this moment changes the same row, so that one
 * of them finds it changed.
 */
import { type BatchUse, bindFiles, markBatchUsed, unmarkBatchUsed } from '../attachments/attachments.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { type Acceptance, type AcceptanceResult, acceptWithin, notStored } from './acceptance.ts';

export interface LargeAcceptance {
  acceptance: Acceptance;
  use: BatchUse;
}

export interface LargeAcceptanceResult extends AcceptanceResult {
  /** The submission was used, changed or removed since it was looked at; nothing was stored. */
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
  if (row === undefined) throw new Error(`message ${messageId} is not there in its own transaction`);
  return row.email_seq;
}

/**
 * A send whose files were uploaded before: composes around them, and accepts the mail together with using the upload batch up. When
 * an upload was repeated meanwhile, or another send was faster, the batch is read again.
 */
import { type CompleteBatch, useBatch } from '../attachments/attachments.ts';
import { ok, type Result } from '../base/result.ts';
import type { AcceptDependencies, AcceptEmails, EmailsToAccept } from './accept-emails.ts';
import type { AcceptanceResult } from './acceptance.ts';
import type { CheckedMail } from './check.ts';
import { composeLarge, type UploadedFile } from './compose-large.ts';
import type { FilledMail, FillInDependencies } from './fill-in.ts';
import type { Sender } from './sender.ts';

type Dependencies = Pick<AcceptDependencies, 'database' | 'blobs'>;

/** The files of the mail's batch; none when it names none. Refuses as `useBatch` does. */
export async function uploadedFiles(
  dependencies: Dependencies,
  mail: CheckedMail,
  sender: Sender,
  idempotencyKey: string | undefined,
): Promise<Result<UploadedFile[] | undefined>> {
  const submissionId = mail.attachmentSubmissionId;
  if (submissionId === undefined) return ok(undefined);
  const reference = { accountId: sender.account.id, mode: sender.mode, submissionId, idempotencyKey };
  return useBatch(dependencies, reference, async (batch) => ok(filesOf(batch)));
}

function filesOf(batch: CompleteBatch): UploadedFile[] {
  return batch.files.map((file) => ({ ...file, sha256: file.sha256.toString('hex') }));
}

export interface LargeSend {
  mail: CheckedMail;
  sender: Sender;
  filled: FilledMail;
  idempotencyKey: string | undefined;
  /** What holds beside what comes of the batch. */
  common: Omit<EmailsToAccept, 'emails' | 'submission'>;
}

/** Composes and accepts; the result says `stored: false` when the key has an answer already. */
export async function acceptLarge(
  dependencies: Dependencies & FillInDependencies,
  acceptEmails: AcceptEmails,
  { mail, sender, filled, idempotencyKey, common }: LargeSend,
): Promise<Result<AcceptanceResult>> {
  const submissionId = mail.attachmentSubmissionId;
  if (submissionId === undefined) throw new Error('a large send names no upload batch');
  const reference = { accountId: sender.account.id, mode: sender.mode, submissionId, idempotencyKey };
  return useBatch(dependencies, reference, async (batch) => {
    const email = composeLarge(mail, sender, { filled, files: filesOf(batch) }, dependencies);
    if (!email.ok) return email;
    const submission = { submissionId, version: batch.version };
    const result = await acceptEmails({ ...common, emails: [email.value], submission });
    return 'isSubmissionLost' in result && result.isSubmissionLost ? undefined : ok(result);
  });
}

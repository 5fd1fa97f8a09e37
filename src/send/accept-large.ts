/**
 * A send whose files were uploaded before: looks up the submission, composes around its files, and takes the mail in
 * together with using the submission up. What was looked at may be gone by then, because an upload was repeated or another
 * send was faster; it is then judged anew.
 */
import { submissionForSend } from '../attachments/attachments.ts';
import { failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { AcceptanceResult } from '../messages/messages.ts';
import type { AcceptDependencies, AcceptEmails, Intake } from './accept-emails.ts';
import type { CheckedMail } from './check.ts';
import { composeLarge, type UploadedFile } from './compose-large.ts';
import type { FilledMail, Sender } from './fill-in.ts';

/** A repeated upload ends once; only a client that uploads all the time is in the way longer. */
const LOOKS = 5;

export interface Uploaded {
  submissionId: string;
  /** Of the submission that was looked at. */
  version: number;
  files: UploadedFile[];
}

/** The files of the mail's submission; none when it names none. Refuses as `submissionForSend` does. */
export async function uploadedFiles(
  dependencies: Pick<AcceptDependencies, 'database' | 'blobs'>,
  mail: CheckedMail,
  sender: Sender,
  idempotencyKey: string | undefined,
): Promise<Result<Uploaded | undefined>> {
  const submissionId = mail.attachmentSubmissionId;
  if (submissionId === undefined) return ok(undefined);
  const reference = { accountId: sender.account.id, mode: sender.mode, submissionId, idempotencyKey };
  const found = await submissionForSend(dependencies, reference);
  if (!found.ok) return found;
  const files = found.value.files.map((file) => ({ ...file, sha256: file.sha256.toString('hex') }));
  return ok({ submissionId, version: found.value.version, files });
}

export interface LargeSend {
  mail: CheckedMail;
  sender: Sender;
  filled: FilledMail;
  idempotencyKey: string | undefined;
  /** All of the intake but what comes of the submission. */
  intake: Omit<Intake, 'emails' | 'submission'>;
}

/** Composes and takes in; the result says `stored: false` when the key has an answer already. */
export async function acceptLarge(
  dependencies: Pick<AcceptDependencies, 'database' | 'blobs'>,
  acceptEmails: AcceptEmails,
  { mail, sender, filled, idempotencyKey, intake }: LargeSend,
): Promise<Result<AcceptanceResult>> {
  for (let look = 0; look < LOOKS; look += 1) {
    const uploaded = await uploadedFiles(dependencies, mail, sender, idempotencyKey);
    if (!uploaded.ok) return uploaded;
    if (uploaded.value === undefined) throw new Error('a large send names no submission');
    const { submissionId, version, files } = uploaded.value;
    const email = composeLarge(mail, sender, filled, files);
    if (!email.ok) return email;
    const result = await acceptEmails({ ...intake, emails: [email.value], submission: { submissionId, version } });
    if (!('isSubmissionLost' in result && result.isSubmissionLost)) return ok(result);
  }
  const message = 'The files are being uploaded again and again; send the mail once the uploads have ended.';
  return refuse(failure('ATTACHMENT_UPLOAD_INCOMPLETE', { message }));
}

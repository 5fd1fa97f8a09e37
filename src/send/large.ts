/**
 * Mail with files that were uploaded before: everything but the files is composed and stored as content; the files stay in their blobs and
 * are named with their positions in the content. Limits are checked by exact sizes, both without the files and for the complete mail as it
 * will be sent, without reading a file. Accepting the mail uses the upload batch up in the same transaction; if an upload was repeated or
 * another send was faster, the batch is read again.
 */
import { type CompleteBatch, useBatch } from '../attachments/attachments.ts';
import { ok, type Result, refuse } from '../base/failure.ts';
import { composeSkeleton, type MessageSkeleton } from '../mail/compose/compose.ts';
import type { EmailFile } from '../messages/messages.ts';
import type { AcceptDependencies, AcceptEmails, ComposedEmail, EmailsToAccept } from './accept-emails.ts';
import type { AcceptanceResult } from './acceptance.ts';
import type { CheckedMail } from './check.ts';
import {
  commonOf,
  composedEmail,
  type FilledMail,
  type FillInDependencies,
  mailToCompose,
  personalize,
} from './compose-emails.ts';
import type { Sender } from './mail-header.ts';
import { type LargeSize, largeSizeIssues, lengthIssue, sizeExceeded } from './size-limits.ts';

/** A file that was uploaded and is stored under a key, with its digest checked. */
export interface UploadedFile {
  name: string;
  contentType: string;
  sizeBytes: number;
  blobKey: string;
  /** In hex. */
  sha256: string;
}

/**
 * Composes a message around uploaded files, for its one group of recipients. Fails with EMAIL_SIZE_EXCEEDED, stating both sizes, if
 * everything but the files exceeds 2,000,000 bytes, or the complete mail exceeds the account's approved limit or 40,000,000 bytes. Reads
 * and stores nothing.
 */
function composeLarge(
  mail: CheckedMail,
  sender: Sender,
  { filled, files }: { filled: FilledMail; files: readonly UploadedFile[] },
  dependencies: FillInDependencies,
): Result<ComposedEmail> {
  const recipients = filled.groups[0]!;
  const content = personalize(filled.parts, mail, { sender, recipient: recipients[0]! }, dependencies);
  const tooLong = lengthIssue(content);
  if (tooLong !== undefined) return refuse(sizeExceeded(tooLong));
  const common = commonOf(mail, sender);
  const { messageId } = common;
  const skeleton = composeSkeleton(mailToCompose(mail, sender, { content, messageId, attachments: files }));
  const [tooLarge] = largeSizeIssues(sizesOf(skeleton), sender.account.approvedEmailBytes);
  if (tooLarge !== undefined) return refuse(sizeExceeded(tooLarge));
  const composed = { content: Buffer.concat(skeleton.pieces), smtpUtf8: skeleton.smtpUtf8 };
  const email = composedEmail(mail, { recipients, content }, composed, common);
  email.sizeBytes = skeleton.sizeBytes;
  email.options.files = placed(skeleton, files);
  return ok(email);
}

export function sizesOf({ pieces, sizeBytes }: Pick<MessageSkeleton, 'pieces' | 'sizeBytes'>): LargeSize {
  return { withoutFiles: pieces.reduce((sum, piece) => sum + piece.length, 0), complete: sizeBytes };
}

function placed(skeleton: { pieces: Buffer[]; order: number[] }, files: readonly UploadedFile[]): EmailFile[] {
  let at = 0;
  return skeleton.order.map((number, index) => {
    at += skeleton.pieces[index]!.length;
    const { blobKey, sizeBytes, sha256 } = files[number]!;
    return { at, blobKey, sizeBytes, sha256 };
  });
}

type Dependencies = Pick<AcceptDependencies, 'database' | 'blobs'>;

/** Returns the files of the mail's batch; none if it names none. Refuses as `useBatch` does. */
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

interface LargeSend {
  mail: CheckedMail;
  sender: Sender;
  filled: FilledMail;
  idempotencyKey: string | undefined;
  /** What does not depend on the batch. */
  common: Omit<EmailsToAccept, 'emails' | 'submission'>;
}

/** Composes and accepts the mail; the result has `stored: false` if the key already has a response. */
export async function acceptLarge(
  dependencies: Dependencies & FillInDependencies,
  acceptEmails: AcceptEmails,
  { mail, sender, filled, idempotencyKey, common }: LargeSend,
): Promise<Result<AcceptanceResult>> {
  const submissionId = mail.attachmentSubmissionId;
  if (submissionId === undefined) throw new Error('a send with uploaded files has no upload batch');
  const reference = { accountId: sender.account.id, mode: sender.mode, submissionId, idempotencyKey };
  return useBatch(dependencies, reference, async (batch) => {
    const email = composeLarge(mail, sender, { filled, files: filesOf(batch) }, dependencies);
    if (!email.ok) return email;
    const submission = { submissionId, version: batch.version };
    const result = await acceptEmails({ ...common, emails: [email.value], submission });
    return 'isSubmissionLost' in result && result.isSubmissionLost ? undefined : ok(result);
  });
}

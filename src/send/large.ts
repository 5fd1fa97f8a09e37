/**
 * Mail whose files were uploaded before: everything but the files is composed and stored as content, and the files, which stay
 * where they are, are named with their places in it. Refuses by exact sizes: that of everything but the files, and that
 * of the whole mail as it will leave, which is known without reading a file. The mail is accepted together with using the upload batch
 * up; when an upload was repeated meanwhile, or another send was faster, the batch is read again.
 */
import { MAXIMUM_EMAIL_BYTES, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { type CompleteBatch, useBatch } from '../attachments/attachments.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
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
  lengthBeyondComposing,
  mailToCompose,
  personalise,
} from './compose-emails.ts';
import type { Sender } from './mail-header.ts';

/** A file that was uploaded and is stored under a key, its digest checked. */
export interface UploadedFile {
  name: string;
  contentType: string;
  sizeBytes: number;
  blobKey: string;
  /** In hex. */
  sha256: string;
}

/** What is too large of a mail, and how to fix it. */
export interface SizeIssue {
  message: string;
  remedy: string;
}

/**
 * Composes a mail around uploaded files, for its one group of recipients. EMAIL_SIZE_EXCEEDED, stating both sizes, when
 * everything but the files is larger than 2,000,000 bytes, or the whole larger than the account's approved limit or
 * 40,000,000 bytes. Nothing is read and nothing stored.
 */
function composeLarge(
  mail: CheckedMail,
  sender: Sender,
  { filled, files }: { filled: FilledMail; files: readonly UploadedFile[] },
  dependencies: FillInDependencies,
): Result<ComposedEmail> {
  const recipients = filled.groups[0]!;
  const content = personalise(filled.parts, mail, { sender, recipient: recipients[0]! }, dependencies);
  const length = lengthBeyondComposing(content);
  if (length !== undefined) {
    return refuse(failure('EMAIL_SIZE_EXCEEDED', { message: sentenceOf(contentTooLarge(length)) }));
  }
  const common = commonOf(mail, sender);
  const { messageId } = common;
  const skeleton = composeSkeleton(mailToCompose(mail, sender, { content, messageId, attachments: files }));
  const [tooLarge] = largeSizeIssues(skeleton, sender.account.approvedEmailBytes);
  if (tooLarge !== undefined) return refuse(failure('EMAIL_SIZE_EXCEEDED', { message: sentenceOf(tooLarge) }));
  const composed = { content: Buffer.concat(skeleton.pieces), smtpUtf8: skeleton.smtpUtf8 };
  const email = composedEmail(mail, { recipients, content }, composed, common);
  email.sizeBytes = skeleton.sizeBytes;
  email.options.files = placed(skeleton, files);
  return ok(email);
}

function placed(skeleton: { pieces: Buffer[]; order: number[] }, files: readonly UploadedFile[]): EmailFile[] {
  let at = 0;
  return skeleton.order.map((number, index) => {
    at += skeleton.pieces[index]!.length;
    const { blobKey, sizeBytes, sha256 } = files[number]!;
    return { at, blobKey, sizeBytes, sha256 };
  });
}

/** Which of its two limits a mail exceeds: that of everything but the files first, then that of the whole. */
export function largeSizeIssues(skeleton: MessageSkeleton, approvedEmailBytes: number): SizeIssue[] {
  const contentBytes = skeleton.pieces.reduce((sum, piece) => sum + piece.length, 0);
  const issues: SizeIssue[] = [];
  if (contentBytes > STANDARD_EMAIL_BYTES) issues.push(contentTooLarge(contentBytes));
  if (skeleton.sizeBytes > Math.min(approvedEmailBytes, MAXIMUM_EMAIL_BYTES))
    issues.push(wholeTooLarge(skeleton.sizeBytes, approvedEmailBytes));
  return issues;
}

function sentenceOf({ message, remedy }: SizeIssue): string {
  return `${message} ${remedy}`;
}

function contentTooLarge(sizeBytes: number): SizeIssue {
  return {
    message:
      `The email without its files is ${sizeBytes} bytes; at most ${STANDARD_EMAIL_BYTES} bytes are allowed beside the ` +
      'files.',
    remedy: 'Shorten its text and html.',
  };
}

function wholeTooLarge(sizeBytes: number, approvedEmailBytes: number): SizeIssue {
  if (approvedEmailBytes < MAXIMUM_EMAIL_BYTES) {
    return {
      message: `The complete email is ${sizeBytes} bytes; the approved limit of this account is ${approvedEmailBytes} bytes.`,
      remedy: 'Make the files smaller, or ask for a larger limit with POST /approvals.',
    };
  }
  return {
    message: `The complete email is ${sizeBytes} bytes; the limit is ${MAXIMUM_EMAIL_BYTES} bytes.`,
    remedy: 'Make the files smaller.',
  };
}

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

interface LargeSend {
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

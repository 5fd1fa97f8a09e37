/**
 * Mail whose files were uploaded before: everything but the files is composed and stored as content, and the files, which stay
 * where they are, are named with their places in it. Refuses by exact sizes: that of everything but the files, and that
 * of the whole mail as it will leave, which is known without reading a file.
 */
import { MAXIMUM_EMAIL_BYTES, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { type ComposedFrame, composeFrame } from '../mail/compose/compose.ts';
import type { EmailFile } from '../messages/messages.ts';
import type { ComposedEmail } from './accept-emails.ts';
import type { CheckedMail } from './check.ts';
import { composedEmail, partsOf, sharedOf } from './compose-emails.ts';
import type { FilledMail, Sender } from './fill-in.ts';

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

/** Beyond this many characters of html and text together, content cannot fit, and is not composed. */
const MAX_RENDERED_LENGTH = 8 * STANDARD_EMAIL_BYTES;

/**
 * Composes a mail around uploaded files, for its one group of recipients. EMAIL_SIZE_EXCEEDED, stating both sizes, when
 * everything but the files is larger than 2,000,000 bytes, or the whole larger than the account's approved limit or
 * 40,000,000 bytes. Nothing is read and nothing stored.
 */
export function composeLarge(
  mail: CheckedMail,
  sender: Sender,
  filled: FilledMail,
  files: readonly UploadedFile[],
): Result<ComposedEmail> {
  const group = { recipients: filled.groups[0]!, content: filled.first };
  const length = (group.content.html?.length ?? 0) + (group.content.text?.length ?? 0);
  if (length > MAX_RENDERED_LENGTH)
    return refuse(failure('EMAIL_SIZE_EXCEEDED', { message: sentenceOf(contentTooLarge(length)) }));
  const shared = sharedOf(mail, sender);
  const frame = composeFrame(
    partsOf(mail, sender, { content: group.content, messageId: shared.messageId, attachments: files }),
  );
  const [tooLarge] = largeSizeIssues(frame, sender.account.approvedEmailBytes);
  if (tooLarge !== undefined) return refuse(failure('EMAIL_SIZE_EXCEEDED', { message: sentenceOf(tooLarge) }));
  const content = Buffer.concat(frame.pieces);
  const email = composedEmail(mail, group, { content, smtpUtf8: frame.smtpUtf8 }, shared);
  email.sizeBytes = frame.sizeBytes;
  email.options.files = placed(frame, files);
  return ok(email);
}

function placed(frame: { pieces: Buffer[]; order: number[] }, files: readonly UploadedFile[]): EmailFile[] {
  let at = 0;
  return frame.order.map((number, index) => {
    at += frame.pieces[index]!.length;
    const { blobKey, sizeBytes, sha256 } = files[number]!;
    return { at, blobKey, sizeBytes, sha256 };
  });
}

/** Which of its two limits a mail exceeds: that of everything but the files first, then that of the whole. */
export function largeSizeIssues(frame: ComposedFrame, approvedEmailBytes: number): SizeIssue[] {
  const contentBytes = frame.pieces.reduce((sum, piece) => sum + piece.length, 0);
  const issues: SizeIssue[] = [];
  if (contentBytes > STANDARD_EMAIL_BYTES) issues.push(contentTooLarge(contentBytes));
  if (frame.sizeBytes > Math.min(approvedEmailBytes, MAXIMUM_EMAIL_BYTES))
    issues.push(wholeTooLarge(frame.sizeBytes, approvedEmailBytes));
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
      message: `The complete email is ${sizeBytes} bytes; this account may send up to ${approvedEmailBytes} bytes.`,
      remedy: 'Make the files smaller, or ask for a larger limit with POST /approvals.',
    };
  }
  return {
    message: `The complete email is ${sizeBytes} bytes; at most ${MAXIMUM_EMAIL_BYTES} bytes are allowed.`,
    remedy: 'Make the files smaller.',
  };
}

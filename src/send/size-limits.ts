/** Limits of the size of an email, and what is said about an email that exceeds one. */
import { MAXIMUM_EMAIL_BYTES, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { type Failure, failure } from '../base/failure.ts';

/** More characters of html and text are not composed: the email would exceed the limit by far. */
const MAX_RENDERED_LENGTH = 8 * STANDARD_EMAIL_BYTES;

/** Names the part of a message that is too large, and how to fix it. */
export interface SizeIssue {
  message: string;
  remedy: string;
}

export const sizeExceeded = ({ message, remedy }: SizeIssue): Failure =>
  failure('EMAIL_SIZE_EXCEEDED', { message: `${message} ${remedy}` });

/** Returns the issue of rendered content that is too long to compose, before it is composed. */
export function lengthIssue({
  html = '',
  text = '',
}: {
  html?: string | undefined;
  text?: string | undefined;
}): SizeIssue | undefined {
  const length = html.length + text.length;
  if (length <= MAX_RENDERED_LENGTH) return undefined;
  return {
    message: `html and text have ${length} characters; the limit of an email is ${STANDARD_EMAIL_BYTES} bytes.`,
    remedy: 'Shorten them.',
  };
}

/** Returns the issue of a complete email without uploaded files. */
export function sizeIssue(sizeBytes: number): SizeIssue | undefined {
  if (sizeBytes <= STANDARD_EMAIL_BYTES) return undefined;
  return {
    message: `The complete email is ${sizeBytes} bytes; the limit is ${STANDARD_EMAIL_BYTES} bytes.`,
    remedy: 'Shorten its content, or upload its files with POST /attachments.',
  };
}

/** The sizes of an email with uploaded files, in bytes. */
export interface LargeSize {
  withoutFiles: number;
  complete: number;
}

/** Returns which of its two limits an email with uploaded files exceeds: the one without the files first, then the total. */
export function largeSizeIssues({ withoutFiles, complete }: LargeSize, approvedEmailBytes: number): SizeIssue[] {
  const issues: SizeIssue[] = [];
  if (withoutFiles > STANDARD_EMAIL_BYTES) {
    issues.push({
      message: `The email without its files is ${withoutFiles} bytes; the limit is ${STANDARD_EMAIL_BYTES} bytes, not counting the files.`,
      remedy: 'Shorten its text and html.',
    });
  }
  if (complete <= Math.min(approvedEmailBytes, MAXIMUM_EMAIL_BYTES)) return issues;
  if (approvedEmailBytes < MAXIMUM_EMAIL_BYTES) {
    issues.push({
      message: `The complete email is ${complete} bytes; the approved limit of this account is ${approvedEmailBytes} bytes.`,
      remedy: 'Make the files smaller, or request a larger limit with POST /approvals.',
    });
  } else {
    issues.push({
      message: `The complete email is ${complete} bytes; the limit is ${MAXIMUM_EMAIL_BYTES} bytes.`,
      remedy: 'Make the files smaller.',
    });
  }
  return issues;
}

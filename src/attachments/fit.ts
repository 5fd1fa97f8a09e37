/**
 * Whether files can be part of any email within a limit: checked by the smallest email that there is around them, composed
 * by the composer itself, so that the figure is exact. It is a lower bound: no email with these files is smaller, and a
 * manifest that some email could carry is never refused.
 */
import { type Failure, failure } from '../base/failure.ts';
import type { FileBySize, MailBySize } from '../mail/compose/compose.ts';
import { composedSizeBytes } from '../mail/compose/compose.ts';
import { newMessageId } from '../mail/compose/header.ts';

/**
 * No address that may be sent from or to is shorter: a domain has two labels at least, each of one character. No Message-ID
 * is shorter either: it is made at the sender's domain.
 */
const SHORTEST = { name: '', address: 'a@b.c', local: 'a', domain: 'b.c' };
const MESSAGE_ID = newMessageId(SHORTEST.domain, Date.UTC(2026, 0));

function smallestMail(body: { text: string } | { html: string }, files: readonly FileBySize[]): MailBySize {
  return {
    from: SHORTEST,
    to: [SHORTEST],
    cc: [],
    replyTo: [],
    subject: '',
    headers: [],
    messageId: MESSAGE_ID,
    dateMs: 0,
    attachments: files,
    ...body,
  };
}

/** Bytes of the smallest complete email with these files. */
export function leastEmailBytes(files: readonly { name: string; contentType: string; sizeBytes: number }[]): number {
  const bySize = files.map(({ name, contentType, sizeBytes }) => ({ name, contentType, sizeBytes }));
  // What is given must not be empty, and may be once its variables are filled in; no text is derived from empty html.
  return Math.min(
    composedSizeBytes(smallestMail({ text: '' }, bySize)),
    composedSizeBytes(smallestMail({ html: '' }, bySize)),
  );
}

export interface EmailLimits {
  /** What the operator has approved for the account. */
  approvedEmailBytes: number;
  /** What no approval goes beyond. */
  maximumEmailBytes: number;
}

/** EMAIL_SIZE_EXCEEDED with both sizes, or undefined when the files fit. */
export function fitFailure(leastBytes: number, limits: EmailLimits): Failure | undefined {
  const { approvedEmailBytes, maximumEmailBytes } = limits;
  const limitBytes = Math.min(approvedEmailBytes, maximumEmailBytes);
  if (leastBytes <= limitBytes) return undefined;
  const remedy =
    leastBytes <= maximumEmailBytes
      ? 'ask for a larger limit with POST /approvals, or send fewer or smaller files'
      : `no email may be larger than ${maximumEmailBytes} bytes: send fewer or smaller files`;
  return failure('EMAIL_SIZE_EXCEEDED', {
    message: `An email with these files is at least ${leastBytes} bytes; at most ${limitBytes} bytes are approved for this account: ${remedy}.`,
    details: [
      {
        field: 'attachments',
        message: `make an email of at least ${leastBytes} bytes; at most ${limitBytes} are approved`,
      },
    ],
  });
}

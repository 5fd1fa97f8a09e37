/**
 * From parts to the bytes that will leave, once for each group of recipients who get the same ones. Refuses what is larger
 * than an email may be, by its exact size.
 */
import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { type Failure, failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { SLICE_MS, timeSlice, yieldToEventLoop } from '../base/time-slice.ts';
import type { Address } from '../mail/address.ts';
import { type ComposedMail, compose, type MailToCompose } from '../mail/compose/compose.ts';
import { newMessageId } from '../mail/compose/header.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import { type Rendered, threadTimeMs } from '../templates/templates.ts';
import type { CheckedMail } from './check.ts';
import type { ComposedEmail, EmailRecipient } from './composed-email.ts';
import { type Content, type FilledMail, type FillInDependencies, fillInFor, personalise } from './fill-in.ts';
import type { Sender } from './sender.ts';

/** Html and text with more characters together are refused by their length, without being composed first. */
const MAX_RENDERED_LENGTH = 8 * STANDARD_EMAIL_BYTES;

/** Work of filling in the copies of one mail, of all recipients together; one alone has 50 ms (templates/budget.ts). */
const MAX_FILLING_MS = 2_000;

/** What copies may have together in memory; those that are larger than their share of it go to their blobs one by one. */
const COPIES_IN_MEMORY_BYTES = 8_000_000;
const NO_BYTES = Buffer.alloc(0);

/** What composing the copies of one mail needs beside what they are filled in with. */
export interface ComposeDependencies extends FillInDependencies {
  blobs: Blobs;
}

/**
 * Composes the mail for every group, or refuses it for its size. Several groups yield to other requests in between, and may
 * take two seconds of filling in. Large copies are in their blobs already: of them memory holds one at a time. Rejects with
 * Unavailable when such a blob cannot be written.
 */
export async function composeEmails(
  mail: CheckedMail,
  sender: Sender,
  filled: FilledMail,
  dependencies: ComposeDependencies,
): Promise<Result<ComposedEmail[]>> {
  const { groups } = filled;
  const common = commonOf(mail, sender);
  const fillInNext = createFillIn(mail, sender, filled, dependencies);
  const emails: ComposedEmail[] = [];
  let isComplete = false;
  try {
    for (const recipients of groups) {
      const recipient = recipients[0]!;
      const parts = emails.length === 0 ? ok(filled.parts) : await fillInNext(recipient);
      if (!parts.ok) return parts;
      const content = personalise(parts.value, mail, { sender, recipient }, dependencies);
      const email = composeGroup(mail, sender, { recipients, content }, common);
      if (!email.ok) return email;
      const isLarge = groups.length > 1 && email.value.content.length * groups.length > COPIES_IN_MEMORY_BYTES;
      emails.push(isLarge ? await withBlob(email.value, dependencies.blobs) : email.value);
    }
    isComplete = true;
    return ok(emails);
  } finally {
    if (!isComplete)
      dropBlobs(
        dependencies.blobs,
        emails.flatMap((email) => email.blobKey ?? []),
      );
  }
}

/** Fills in the parts of one group after the other, within the time that all have together. */
function createFillIn(
  mail: CheckedMail,
  sender: Sender,
  { parts, isShared, groups }: FilledMail,
  dependencies: FillInDependencies,
): (recipient: EmailRecipient) => Promise<Result<Rendered>> {
  let usedMs = 0;
  return async (recipient) => {
    const wait = timeSlice();
    if (wait !== undefined) await wait;
    if (isShared) return ok(parts);
    const beganMs = threadTimeMs();
    const filled = fillInFor(mail, sender, recipient, dependencies);
    const tookMs = threadTimeMs() - beganMs;
    usedMs += tookMs;
    if (filled.ok && usedMs > MAX_FILLING_MS) return refuse(tooSlowInAll(groups.length));
    if (tookMs > SLICE_MS) await yieldToEventLoop();
    return filled;
  };
}

async function withBlob(email: ComposedEmail, blobs: Blobs): Promise<ComposedEmail> {
  const blobKey = await blobs.put(email.content);
  return { ...email, content: NO_BYTES, sizeBytes: email.content.length, blobKey };
}

/** What all groups of a mail have in common. */
export interface Common {
  messageId: string;
  /** The addresses as the API shows them. */
  headerTo: ComposedEmail['headerTo'];
}

export function commonOf(mail: CheckedMail, sender: Sender): Common {
  const { to, cc } = mail.recipients;
  return {
    messageId: newMessageId(mail.from.domain, sender.nowMs),
    headerTo: { to: to.map(shownAddress), cc: cc.map(shownAddress) },
  };
}

/** The recipients who get the same bytes, and the parts of these. */
export interface Group {
  recipients: EmailRecipient[];
  content: Content;
}

function composeGroup(mail: CheckedMail, sender: Sender, group: Group, common: Common): Result<ComposedEmail> {
  const length = lengthBeyondComposing(group.content);
  if (length !== undefined) return refuse(tooLarge(length));
  const { messageId } = common;
  const composed = compose(mailToCompose(mail, sender, { content: group.content, messageId, attachments: mail.files }));
  if (composed.sizeBytes > STANDARD_EMAIL_BYTES) return refuse(tooLarge(composed.sizeBytes));
  return ok(composedEmail(mail, group, composed, common));
}

/** The characters of html and text together, where they are too many to be composed. */
export function lengthBeyondComposing({ html = '', text = '' }: Content): number | undefined {
  const length = html.length + text.length;
  return length > MAX_RENDERED_LENGTH ? length : undefined;
}

/** A mail with these parts as the composer takes it, with the files `attachments`. */
export function mailToCompose<F>(
  mail: CheckedMail,
  sender: Sender,
  { content, messageId, attachments }: { content: Content; messageId: string; attachments: readonly F[] },
): Omit<MailToCompose, 'attachments'> & { attachments: readonly F[] } {
  return {
    from: mail.from,
    to: mail.recipients.to,
    cc: mail.recipients.cc,
    replyTo: mail.replyTo,
    subject: content.subject!,
    headers: content.headers === undefined ? mail.headers : [...mail.headers, ...content.headers],
    messageId,
    dateMs: sender.nowMs,
    html: content.html,
    text: content.text,
    attachments,
  };
}

/** What is stored of a composed mail for the recipients of a group. */
export function composedEmail(
  mail: CheckedMail,
  { recipients, content: { subject } }: Group,
  { content, smtpUtf8 }: Pick<ComposedMail, 'content' | 'smtpUtf8'>,
  { messageId, headerTo }: Common,
): ComposedEmail {
  const { requireTls, expiresAfterSeconds, sandboxOutcome, tags, metadata, template } = mail;
  return {
    headerFrom: mail.fromText,
    headerTo,
    envelopeFrom: mail.from.address,
    subject: subject!,
    headerMessageId: messageId,
    tags,
    metadata,
    // Bodies are composed in 7 bits; only a header with UTF-8 addresses has more.
    options: {
      ...{ requireTls, smtpUtf8, eightBit: smtpUtf8, expiresAfterSeconds },
      ...(sandboxOutcome !== undefined && { sandboxOutcome }),
    },
    template,
    content,
    recipients,
  };
}

function shownAddress(address: Address): string {
  return address.name === '' ? address.address : `${address.name} <${address.address}>`;
}

function tooLarge(sizeBytes: number): Failure {
  return failure('EMAIL_SIZE_EXCEEDED', {
    message:
      `The complete email is ${sizeBytes} bytes; at most ${STANDARD_EMAIL_BYTES} bytes are allowed. ` +
      'Make the files smaller, or upload them with POST /attachments.',
  });
}

function tooSlowInAll(recipients: number): Failure {
  const remedy = 'Make the template simpler, or send it to fewer recipients at a time.';
  return failure('TEMPLATE_INVALID', {
    message: `The template takes longer than ${MAX_FILLING_MS} ms to fill in for each of ${recipients} recipients. ${remedy}`,
    details: [{ field: 'html', message: `takes longer than ${MAX_FILLING_MS} ms to fill in for all recipients` }],
  });
}

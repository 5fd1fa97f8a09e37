/**
 * From parts to the bytes that will leave, once for each group of recipients who get the same ones. Refuses what is larger
 * than an email may be, by its exact size.
 */
import { MAXIMUM_EMAIL_BYTES, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { turn } from '../base/turns.ts';
import type { Address } from '../mail/address.ts';
import { type ComposedMail, compose, type MailFrame } from '../mail/compose.ts';
import { newMessageId } from '../mail/header.ts';
import type { EmailOptions } from '../messages/messages.ts';
import { threadTimeMs } from '../templates/templates.ts';
import type { CheckedMail } from './check.ts';
import { type Content, type ContentDependencies, contentFor, type Filled, type Sender } from './content.ts';
import type { IntakeEmail, IntakeRecipient } from './intake.ts';

/** Rendered content beyond this is refused by its length, without being composed first. */
const MAX_RENDERED_LENGTH = 8 * STANDARD_EMAIL_BYTES;

/** Work of filling in the copies of one mail, of all recipients together; one alone has 200 ms (templates/time-limit.ts). */
const MAX_FILLING_MS = 2_000;

/** What all groups of a mail have in common. */
export interface Shared {
  messageId: string;
  headerTo: IntakeEmail['headerTo'];
}

/** What the groups of this mail share: a new Message-ID, and the addresses as the API shows them. */
export function sharedOf(mail: CheckedMail, sender: Sender): Shared {
  const { to, cc } = mail.recipients;
  return {
    messageId: newMessageId(mail.from.domain, sender.nowMs),
    headerTo: { to: to.map(shownAddress), cc: cc.map(shownAddress) },
  };
}

/**
 * Composes the mail for every group, or refuses it for its size, stating both sizes. One group, the ordinary case, is
 * composed at once; several take turns with other requests, and may be 40,000,000 bytes and two seconds of filling in.
 */
export function composeAll(
  mail: CheckedMail,
  sender: Sender,
  filled: Filled,
  dependencies: ContentDependencies,
): Result<IntakeEmail[]> | Promise<Result<IntakeEmail[]>> {
  const shared = sharedOf(mail, sender);
  const first = composeGroup(mail, sender, { recipients: filled.groups[0]!, content: filled.first }, shared);
  if (!first.ok) return first;
  const emails = [first.value];
  return filled.groups.length === 1 ? ok(emails) : composeRest(mail, sender, { filled, shared, emails }, dependencies);
}

async function composeRest(
  mail: CheckedMail,
  sender: Sender,
  { filled, shared, emails }: { filled: Filled; shared: Shared; emails: IntakeEmail[] },
  dependencies: ContentDependencies,
): Promise<Result<IntakeEmail[]>> {
  const estimate = emails[0]!.content.length * filled.groups.length;
  if (estimate > MAXIMUM_EMAIL_BYTES) return refuse(tooLargeInAll(estimate));
  let workedMs = 0;
  for (const recipients of filled.groups.slice(1)) {
    const wait = turn();
    if (wait !== undefined) await wait;
    const beganMs = threadTimeMs();
    const content = contentFor(mail, sender, recipients[0]!, dependencies);
    if (!content.ok) return content;
    workedMs += threadTimeMs() - beganMs;
    if (mail.render && workedMs > MAX_FILLING_MS) return refuse(tooSlowInAll(filled.groups.length));
    const email = composeGroup(mail, sender, { recipients, content: content.value }, shared);
    if (!email.ok) return email;
    emails.push(email.value);
  }
  return ok(emails);
}

/** The recipients who get the same bytes, and the parts of these. */
export interface Group {
  recipients: IntakeRecipient[];
  content: Content;
}

function composeGroup(mail: CheckedMail, sender: Sender, group: Group, shared: Shared): Result<IntakeEmail> {
  const length = (group.content.html?.length ?? 0) + (group.content.text?.length ?? 0);
  if (length > MAX_RENDERED_LENGTH) return refuse(tooLarge(length));
  const composed = composeContent(mail, sender, group.content, shared.messageId);
  if (composed.sizeBytes > STANDARD_EMAIL_BYTES) return refuse(tooLarge(composed.sizeBytes));
  return ok(intakeEmail(mail, group, composed, shared));
}

/** The bytes of a mail with these parts. */
export function composeContent(mail: CheckedMail, sender: Sender, content: Content, messageId: string): ComposedMail {
  return compose({ ...partsOf(mail, sender, content, messageId), attachments: mail.files });
}

/** Everything of a mail but its files, as the composer takes it. */
export function partsOf(
  mail: CheckedMail,
  sender: Sender,
  content: Content,
  messageId: string,
): Omit<MailFrame, 'attachments'> {
  const { subject, html, text } = content;
  return {
    from: mail.from,
    to: mail.recipients.to,
    cc: mail.recipients.cc,
    replyTo: mail.replyTo,
    subject: subject!,
    headers: content.headers === undefined ? mail.headers : [...mail.headers, ...content.headers],
    messageId,
    dateMs: sender.nowMs,
    ...(html !== undefined && { html }),
    ...(text !== undefined && { text }),
  };
}

/** What is stored of a composed mail for the recipients of a group. */
export function intakeEmail(
  mail: CheckedMail,
  group: Group,
  composed: Pick<ComposedMail, 'content' | 'smtpUtf8'>,
  shared: Shared,
): IntakeEmail {
  const options: EmailOptions = {
    requireTls: mail.requireTls,
    smtpUtf8: composed.smtpUtf8,
    // Bodies are composed in 7 bits; only a header with UTF-8 addresses has more.
    eightBit: composed.smtpUtf8,
    expiresAfterSeconds: mail.expiresAfterSeconds,
  };
  if (mail.sandboxOutcome !== undefined) options.sandboxOutcome = mail.sandboxOutcome;
  return {
    headerFrom: mail.fromText,
    headerTo: shared.headerTo,
    envelopeFrom: mail.from.address,
    subject: group.content.subject!,
    headerMessageId: shared.messageId,
    tags: mail.tags,
    metadata: mail.metadata,
    options,
    ...(mail.template !== undefined && { template: { id: mail.template.id, version: mail.template.version } }),
    content: composed.content,
    recipients: group.recipients,
  };
}

function shownAddress(address: Address): string {
  return address.name === '' ? address.address : `${address.name} <${address.address}>`;
}

function tooLarge(sizeBytes: number): ReturnType<typeof failure> {
  return failure('EMAIL_SIZE_EXCEEDED', {
    message:
      `The complete email is ${sizeBytes} bytes; at most ${STANDARD_EMAIL_BYTES} bytes are allowed. ` +
      'Make the files smaller, or upload them with POST /attachments.',
  });
}

function tooSlowInAll(recipients: number): ReturnType<typeof failure> {
  const remedy = 'Make the template simpler, or send it to fewer recipients at a time.';
  return failure('TEMPLATE_INVALID', {
    message: `The template takes longer than ${MAX_FILLING_MS} ms to fill in for each of ${recipients} recipients. ${remedy}`,
    details: [{ field: 'html', message: `takes longer than ${MAX_FILLING_MS} ms to fill in for all recipients` }],
  });
}

function tooLargeInAll(sizeBytes: number): ReturnType<typeof failure> {
  return failure('EMAIL_SIZE_EXCEEDED', {
    message:
      `The email differs for each of its recipients and is ${sizeBytes} bytes for all of them; at most ` +
      `${MAXIMUM_EMAIL_BYTES} bytes are taken at once. Send it to fewer recipients at a time.`,
  });
}

/**
 * From parts to the bytes that will leave, once for each group of recipients who get the same ones. Refuses what is larger
 * than an email may be, by its exact size.
 */
import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { pause, TURN_MS, turn } from '../base/turns.ts';
import type { Address } from '../mail/address.ts';
import { type ComposedMail, compose, type MailToCompose } from '../mail/compose/compose.ts';
import { newMessageId } from '../mail/compose/header.ts';
import type { EmailOptions } from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import { threadTimeMs } from '../templates/templates.ts';
import type { ComposedEmail, EmailRecipient } from './accept-emails.ts';
import type { CheckedMail } from './check.ts';
import {
  type Content,
  type ContentDependencies,
  type FilledMail,
  filledFor,
  personalised,
  type Sender,
} from './fill-in.ts';

/** Rendered content beyond this is refused by its length, without being composed first. */
const MAX_RENDERED_LENGTH = 8 * STANDARD_EMAIL_BYTES;

/** Work of filling in the copies of one mail, of all recipients together; one alone has 50 ms (templates/time-limit.ts). */
const MAX_FILLING_MS = 2_000;

/** What copies may have together in memory; those that are larger than their share of it go to their blobs one by one. */
const HELD_BYTES = 8_000_000;
const NO_BYTES = Buffer.alloc(0);

/** What all groups of a mail have in common. */
export interface Shared {
  messageId: string;
  headerTo: ComposedEmail['headerTo'];
}

/** What the groups of this mail share: a new Message-ID, and the addresses as the API shows them. */
export function sharedOf(mail: CheckedMail, sender: Sender): Shared {
  const { to, cc } = mail.recipients;
  return {
    messageId: newMessageId(mail.from.domain, sender.nowMs),
    headerTo: { to: to.map(shownAddress), cc: cc.map(shownAddress) },
  };
}

/** What composing the copies of one mail needs beside what they are filled in with. */
export interface CompositionDependencies extends ContentDependencies {
  blobs: Blobs;
}

/**
 * Composes the mail for every group, or refuses it for its size. One group, the ordinary case, is composed at once; several
 * take turns with other requests, and may take two seconds of filling in. Large copies are in their blobs already: of them memory
 * holds the first and the one that is being made. Rejects with Unavailable when such a blob cannot be written.
 */
export function composeEmails(
  mail: CheckedMail,
  sender: Sender,
  filled: FilledMail,
  dependencies: CompositionDependencies,
): Result<ComposedEmail[]> | Promise<Result<ComposedEmail[]>> {
  const shared = sharedOf(mail, sender);
  const first = composeGroup(mail, sender, { recipients: filled.groups[0]!, content: filled.first }, shared);
  if (!first.ok) return first;
  return filled.groups.length === 1
    ? ok([first.value])
    : composeCopies(mail, sender, { filled, shared, first: first.value }, dependencies);
}

interface Copies {
  filled: FilledMail;
  shared: Shared;
  first: ComposedEmail;
}

async function composeCopies(
  mail: CheckedMail,
  sender: Sender,
  copies: Copies,
  dependencies: CompositionDependencies,
): Promise<Result<ComposedEmail[]>> {
  const stored: string[] = [];
  const { blobs } = dependencies;
  try {
    const composed = await composeRest(mail, sender, { ...copies, stored }, dependencies);
    if (!composed.ok) dropBlobs(blobs, stored);
    return composed;
  } catch (error) {
    dropBlobs(blobs, stored);
    throw error;
  }
}

async function composeRest(
  mail: CheckedMail,
  sender: Sender,
  { filled, shared, first, stored }: Copies & { stored: string[] },
  dependencies: CompositionDependencies,
): Promise<Result<ComposedEmail[]>> {
  const kept = async (email: ComposedEmail): Promise<ComposedEmail> => {
    if (email.content.length * filled.groups.length <= HELD_BYTES) return email;
    const blobKey = await dependencies.blobs.put(email.content);
    stored.push(blobKey);
    return { ...email, content: NO_BYTES, sizeBytes: email.content.length, blobKey };
  };
  const emails = [await kept(first)];
  let workedMs = 0;
  for (const recipients of filled.groups.slice(1)) {
    const wait = turn();
    if (wait !== undefined) await wait;
    const recipient = recipients[0]!;
    const beganMs = threadTimeMs();
    const parts = filled.shared === undefined ? filledFor(mail, sender, recipient, dependencies) : ok(filled.shared);
    if (!parts.ok) return parts;
    const fillingMs = threadTimeMs() - beganMs;
    workedMs += fillingMs;
    if (workedMs > MAX_FILLING_MS) return refuse(tooSlowInAll(filled.groups.length));
    if (fillingMs > TURN_MS) await pause();
    const content = personalised(parts.value, mail, { sender, recipient }, dependencies);
    const email = composeGroup(mail, sender, { recipients, content }, shared);
    if (!email.ok) return email;
    emails.push(await kept(email.value));
  }
  return ok(emails);
}

/** The recipients who get the same bytes, and the parts of these. */
export interface Group {
  recipients: EmailRecipient[];
  content: Content;
}

function composeGroup(mail: CheckedMail, sender: Sender, group: Group, shared: Shared): Result<ComposedEmail> {
  const length = (group.content.html?.length ?? 0) + (group.content.text?.length ?? 0);
  if (length > MAX_RENDERED_LENGTH) return refuse(tooLarge(length));
  const { messageId } = shared;
  const composed = compose(partsOf(mail, sender, { content: group.content, messageId, attachments: mail.files }));
  if (composed.sizeBytes > STANDARD_EMAIL_BYTES) return refuse(tooLarge(composed.sizeBytes));
  return ok(composedEmail(mail, group, composed, shared));
}

/** A mail with these parts as the composer takes it, with the files `attachments`. */
export function partsOf<F>(
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
  group: Group,
  composed: Pick<ComposedMail, 'content' | 'smtpUtf8'>,
  shared: Shared,
): ComposedEmail {
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
    template: mail.template,
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

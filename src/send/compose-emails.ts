/**
 * Renders a message, derives the text from html if there is no text, and composes the bytes once for each group of recipients who get the
 * same bytes. Mail with unsubscribe links, List-Unsubscribe, or tracking differs for each recipient; all other mail is the same for all.
 * Mail whose exact composed size exceeds the limit is refused.
 */
import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newAscendingIds } from '../base/ids.ts';
import { SLICE_MS, timeSlice, yieldToEventLoop } from '../base/time-slice.ts';
import type { TrackingLinks, UnsubscribeLinks } from '../engagement/engagement.ts';
import type { Address } from '../mail/address.ts';
import { type ComposedMail, compose, type MailToCompose } from '../mail/compose/compose.ts';
import { feedbackId, newMessageId } from '../mail/compose/header.ts';
import { trackHtml } from '../mail/html/track-html.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import {
  accountVariables,
  type MailToRender,
  mentionsUnsubscribeLink,
  missingFailure,
  type RenderedMail,
  type TemplateSource,
  threadTimeMs,
  UNSUBSCRIBE_VARIABLE,
} from '../templates/templates.ts';
import type { ComposedEmail, EmailRecipient } from './accept-emails.ts';
import { type CheckedMail, subjectIssue } from './check.ts';
import { type Sender, simulatesSuppressed } from './mail-header.ts';
import { lengthIssue, sizeExceeded, sizeIssue } from './size-limits.ts';

/** The time limit for rendering all copies of one mail. A single copy has 50 ms (templates/context.ts). */
const MAX_RENDERING_MS = 2_000;

/** The memory limit for all copies of a message. If the copies exceed it, each is written to a blob before the next is composed. */
const COPIES_IN_MEMORY_BYTES = 8_000_000;
const NO_BYTES = Buffer.alloc(0);

/** The dependencies of composing: those of rendering, and the blobs. */
interface ComposeDependencies extends FillInDependencies {
  blobs: Blobs;
}

/**
 * Composes the mail for every group, or refuses it because of its size or if rendering takes more than two seconds in total. Between groups
 * it yields to other requests. Large copies are written to their blobs one at a time. Rejects with Unavailable if such a blob cannot be
 * written.
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
      const content = personalize(parts.value, mail, { sender, recipient }, dependencies);
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

/** Returns a function that renders the parts of one group per call, within a common time limit. */
function createFillIn(
  mail: CheckedMail,
  sender: Sender,
  { parts, isShared, groups }: FilledMail,
  dependencies: FillInDependencies,
): (recipient: EmailRecipient) => Promise<Result<RenderedMail>> {
  let renderedMs = 0;
  return async (recipient) => {
    const wait = timeSlice();
    if (wait !== undefined) await wait;
    if (isShared) return ok(parts);
    const startedMs = threadTimeMs();
    const filled = fillInFor(mail, sender, recipient, dependencies);
    const elapsedMs = threadTimeMs() - startedMs;
    renderedMs += elapsedMs;
    if (filled.ok && renderedMs > MAX_RENDERING_MS) return refuse(tooSlowInTotal(groups.length));
    if (elapsedMs > SLICE_MS) await yieldToEventLoop();
    return filled;
  };
}

async function withBlob(email: ComposedEmail, blobs: Blobs): Promise<ComposedEmail> {
  const blobKey = await blobs.put(email.content);
  return { ...email, content: NO_BYTES, sizeBytes: email.content.length, blobKey };
}

/** Values that all groups of a message share. */
interface Common {
  messageId: string;
  /** The addresses as the API displays them. */
  headerTo: ComposedEmail['headerTo'];
}

export function commonOf(mail: CheckedMail, sender: Sender): Common {
  const { to, cc } = mail.recipients;
  return {
    messageId: newMessageId(mail.from.domain, sender.nowMs),
    headerTo: { to: to.map(shownAddress), cc: cc.map(shownAddress) },
  };
}

/** Recipients who receive the same bytes, and the parts of their mail. */
interface Group {
  recipients: EmailRecipient[];
  content: Content;
}

function composeGroup(mail: CheckedMail, sender: Sender, group: Group, common: Common): Result<ComposedEmail> {
  const tooLong = lengthIssue(group.content);
  if (tooLong !== undefined) return refuse(sizeExceeded(tooLong));
  const { messageId } = common;
  const composed = compose(mailToCompose(mail, sender, { content: group.content, messageId, attachments: mail.files }));
  const tooLarge = sizeIssue(composed.sizeBytes);
  if (tooLarge !== undefined) return refuse(sizeExceeded(tooLarge));
  return ok(composedEmail(mail, group, composed, common));
}

/** Returns the Feedback-ID field; nothing if the caller set such a field. */
function feedbackField({ headers, tags }: CheckedMail, { account }: Sender): [name: string, value: string][] {
  if (headers.some(([name]) => name.toLowerCase() === 'feedback-id')) return [];
  return [['Feedback-ID', feedbackId(account.id, tags[0])]];
}

/** Builds the composer's input from these parts and attachments. */
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
    headers: [...mail.headers, ...(content.headers ?? []), ...feedbackField(mail, sender)],
    messageId,
    // The time at which it is sent: filters distrust old dates.
    dateMs: mail.sendAtMs ?? sender.nowMs,
    html: content.html,
    text: content.text,
    attachments,
  };
}

/** Returns whether the header has `TLS-Required: No` (RFC 8689 §5). */
const isTlsOptional = (headers: CheckedMail['headers']): boolean =>
  headers.some(([name, value]) => /^tls-required$/i.test(name) && /^no$/i.test(value.trim()));

/** Builds the record of a composed mail that is stored for the recipients of a group. */
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
    // Bodies are composed in 7 bits; only a header with UTF-8 addresses needs 8 bits.
    options: {
      requireTls,
      smtpUtf8,
      eightBit: smtpUtf8,
      expiresAfterSeconds,
      ...(isTlsOptional(mail.headers) && { tlsOptional: true as const }),
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

function tooSlowInTotal(recipients: number): Failure {
  const remedy = 'Make the template simpler, or send it to fewer recipients at a time.';
  return failure('TEMPLATE_INVALID', {
    message: `Rendering the template for each of ${recipients} recipients takes longer than ${MAX_RENDERING_MS} ms. ${remedy}`,
    details: [{ field: 'html', message: `takes longer than ${MAX_RENDERING_MS} ms to render for all recipients` }],
  });
}

export interface FillInDependencies {
  render(mail: MailToRender): Result<RenderedMail>;
  htmlToText(html: string): string;
  templates: TemplateSource;
  unsubscribeLinks: UnsubscribeLinks;
  trackingLinks: TrackingLinks;
}

/** A message whose variables are rendered. */
export interface FilledMail {
  /** The recipients in groups that receive the same bytes. */
  groups: EmailRecipient[][];
  /** The parts for the first group. */
  parts: RenderedMail;
  /** Whether the parts are the same for all groups. If so, copies differ only in what `personalize` adds. */
  isShared: boolean;
}

/**
 * Renders the variables. If `listMissing` is true, a variable without a value is listed and left empty. Otherwise the request's or the
 * account's setting applies.
 */
export function fillIn(
  mail: CheckedMail,
  sender: Sender,
  dependencies: FillInDependencies,
  { listMissing }: { listMissing: boolean },
): Result<FilledMail> {
  const recipients = recipientsOf(mail, sender);
  const filled = fillInFor(mail, sender, recipients[0]!, dependencies);
  if (!filled.ok) return filled;
  const required = mail.template?.missing ?? [];
  const missing = [...new Set([...required, ...filled.value.missing])];
  if (missing.length > 0 && !listMissing) {
    // A template's required variables must have a value, whatever the setting.
    if (mail.missingVariables === 'error') return refuse(missingFailure(missing, required));
    if (required.length > 0) return refuse(missingFailure(required, required));
  }
  const { subject = '' } = filled.value;
  // A subject without a brace is not a template, and was already checked.
  const issue = mail.subject.includes('{') || subject !== mail.subject ? subjectIssue(subject) : undefined;
  if (issue !== undefined) {
    return refuse(invalid([{ field: 'subject', message: `${issue} after its variables are replaced` }]));
  }
  const groups = recipients.length > 1 && isPersonal(mail) ? recipients.map((one) => [one]) : [recipients];
  return ok({ groups, parts: { ...filled.value, missing }, isShared: !hasOwnLink(mail) });
}

/** Renders the parts of the mail for this recipient, including the recipient's own unsubscribe link. */
function fillInFor(
  mail: CheckedMail,
  sender: Sender,
  recipient: EmailRecipient,
  { render, htmlToText, unsubscribeLinks }: FillInDependencies,
): Result<RenderedMail> {
  const { subject, html, text } = mail;
  if (!needsRendering(mail)) {
    const derived = text ?? (html === undefined ? undefined : htmlToText(html) || undefined);
    return ok({ subject, html, text: derived, missing: [] });
  }
  const variables = accountVariables(sender.account.settings.variables);
  if (hasOwnLink(mail)) {
    const claim = { ...copyOf(sender, recipient), recipient: recipient.address.address };
    const url = unsubscribeLinks.url(claim, mail.from.domain);
    variables[UNSUBSCRIBE_VARIABLE] = `<a href="${url}">Unsubscribe</a>`;
  }
  return render({
    subject,
    html,
    text,
    variables: mail.variables,
    accountVariables: variables,
    optional: mail.template?.optional,
    parsed: mail.template?.parsed,
    keepMissing: mail.missingVariables === 'keep',
    deriveText: true,
  });
}

/** The rendered parts of a message for one group of recipients. */
interface Content extends RenderedMail {
  /** Header fields for this recipient, placed after those of the mail. */
  headers?: [name: string, value: string][];
}

/** Adds the parts that differ for each recipient, if the mail requests them: tracking links, the tracking pixel, and List-Unsubscribe. */
export function personalize(
  parts: RenderedMail,
  mail: CheckedMail,
  { sender, recipient }: { sender: Sender; recipient: EmailRecipient },
  { trackingLinks, unsubscribeLinks }: FillInDependencies,
): Content {
  const content: Content = { ...parts };
  const copy = copyOf(sender, recipient);
  if (content.html !== undefined && (mail.trackOpens || mail.trackClicks)) {
    const tracking = { opens: mail.trackOpens, clicks: mail.trackClicks };
    content.html = trackHtml(content.html, trackingLinks.trackingOf(copy, tracking, mail.from.domain));
  }
  if (mail.listUnsubscribe) {
    const link = { ...copy, recipient: recipient.address.address };
    content.headers = unsubscribeFields(unsubscribeLinks, link, {
      fromDomain: mail.from.domain,
      sentAtMs: mail.sendAtMs ?? sender.nowMs,
    });
  }
  return content;
}

/** RFC 2369 §3.2 and RFC 8058 §3.1: one-click unsubscribe requires both fields, an https URL, and a DKIM signature over both fields. */
function unsubscribeFields(
  links: UnsubscribeLinks,
  link: Parameters<UnsubscribeLinks['url']>[0],
  { fromDomain, sentAtMs }: { fromDomain: string; sentAtMs: number },
): [name: string, value: string][] {
  const mailto = links.mailto(link, sentAtMs);
  const urls = [links.url(link, fromDomain), ...(mailto === undefined ? [] : [mailto])];
  const oneClick: [string, string][] = links.isHttps ? [['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click']] : [];
  return [['List-Unsubscribe', urls.map((url) => `<${url}>`).join(', ')], ...oneClick];
}

function copyOf({ account, mode }: Sender, { messageId }: EmailRecipient) {
  return { accountId: account.id, mode, messageId };
}

/** Returns whether to render the mail. Content over the size limit is not rendered, because the mail is refused anyway. */
function needsRendering({ render, html = '', text = '' }: CheckedMail): boolean {
  return render && html.length <= STANDARD_EMAIL_BYTES && text.length <= STANDARD_EMAIL_BYTES;
}

/** Returns whether recipients get different bytes. */
function isPersonal(mail: CheckedMail): boolean {
  if (mail.listUnsubscribe) return true;
  return ((mail.trackOpens || mail.trackClicks) && mail.html !== undefined) || hasOwnLink(mail);
}

/** Returns whether the mail prints the recipient's own unsubscribe link. */
function hasOwnLink({ render, variables, subject, html, text }: CheckedMail): boolean {
  if (!render || Object.hasOwn(variables, UNSUBSCRIBE_VARIABLE)) return false;
  return (
    (html !== undefined && mentionsUnsubscribeLink(html, 'html')) ||
    (text !== undefined && mentionsUnsubscribeLink(text, 'text')) ||
    mentionsUnsubscribeLink(subject, 'text')
  );
}

function recipientsOf(mail: CheckedMail, sender: Sender): EmailRecipient[] {
  const ids = newAscendingIds('msg', sender.nowMs - sender.clockOffsetMs, mail.recipients.all.length);
  return mail.recipients.all.map(({ address, role, key }, index) => ({
    messageId: ids[index]!,
    address,
    role,
    simulateSuppressed: simulatesSuppressed(sender.mode, address, mail.sandboxOutcome),
    key,
  }));
}

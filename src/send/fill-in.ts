/**
 * What a mail says once its variables have values, with text derived from html where there is none. Mail that contains its
 * recipient's own unsubscribe link is different for each recipient, all other mail is the same for all.
 */

import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { invalid } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { TrackingLinks, UnsubscribeLinks } from '../engagement/engagement.ts';
import { trackHtml } from '../mail/html/track-html.ts';
import {
  accountVariables,
  missingFailure,
  namesLink,
  type Rendered,
  type TemplateSource,
  type ToRender,
  UNSUBSCRIBE_VARIABLE,
} from '../templates/templates.ts';
import { type CheckedMail, subjectIssue } from './check.ts';
import type { EmailRecipient } from './composed-email.ts';
import { simulatesSuppressed } from './recipients.ts';
import type { Sender } from './sender.ts';

export interface FillInDependencies {
  render(mail: ToRender): Result<Rendered>;
  htmlToText(html: string): string;
  templates: TemplateSource;
  unsubscribeLinks: UnsubscribeLinks;
  trackingLinks: TrackingLinks;
}

/** A mail whose variables have values. */
export interface FilledMail {
  /** Recipients who get the same bytes. */
  groups: EmailRecipient[][];
  /** The parts for the first group. */
  parts: Rendered;
  /** Whether they are those for all groups, which differ in what `personalise` adds. */
  isShared: boolean;
}

/**
 * Fills in the variables. With `listMissing` a variable without a value is listed and left empty; otherwise it is treated as
 * the request or the account says.
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
    // What a template requires is not left out for a setting's sake.
    if (mail.missingVariables === 'error') return refuse(missingFailure(missing, required));
    if (required.length > 0) return refuse(missingFailure(required, required));
  }
  const { subject = '' } = filled.value;
  // One without a brace was checked as it is.
  const issue = mail.subject.includes('{') || subject !== mail.subject ? subjectIssue(subject) : undefined;
  if (issue !== undefined) {
    return refuse(invalid([{ field: 'subject', message: `${issue}, with its variables filled in` }]));
  }
  const groups = recipients.length > 1 && isPersonal(mail) ? recipients.map((one) => [one]) : [recipients];
  return ok({ groups, parts: { ...filled.value, missing }, isShared: !hasOwnLink(mail) });
}

/** The parts of the mail with the values of its variables, the link of this recipient among them. */
export function fillInFor(
  mail: CheckedMail,
  sender: Sender,
  recipient: EmailRecipient,
  { render, htmlToText, unsubscribeLinks }: FillInDependencies,
): Result<Rendered> {
  const { subject, html, text } = mail;
  if (!isFilledIn(mail)) {
    const derived = text ?? (html === undefined ? undefined : htmlToText(html) || undefined);
    return ok({ subject, html, text: derived, missing: [] });
  }
  const variables = accountVariables(sender.account.settings.variables);
  if (hasOwnLink(mail)) {
    const url = unsubscribeLinks.url({ ...copyOf(sender, recipient), recipient: recipient.address.address });
    variables[UNSUBSCRIBE_VARIABLE] = `<a href="${url}">Unsubscribe</a>`;
  }
  return render({
    ...{ subject, html, text },
    variables: mail.variables,
    accountVariables: variables,
    optional: mail.template?.optional,
    parsed: mail.template?.parsed,
    keepMissing: mail.missingVariables === 'keep',
    deriveText: true,
  });
}

/** The parts of a mail as one group of recipients gets them. */
export interface Content extends Rendered {
  /** Fields of the recipient's own, behind those of the mail. */
  headers?: [name: string, value: string][];
}

/** Adds what was asked for of the recipient's own: links that lead through us, and headers to unsubscribe with. */
export function personalise(
  parts: Rendered,
  mail: CheckedMail,
  { sender, recipient }: { sender: Sender; recipient: EmailRecipient },
  { trackingLinks, unsubscribeLinks }: FillInDependencies,
): Content {
  const content: Content = { ...parts };
  const copy = copyOf(sender, recipient);
  if (content.html !== undefined && (mail.trackOpens || mail.trackClicks)) {
    const wanted = { opens: mail.trackOpens, clicks: mail.trackClicks };
    content.html = trackHtml(content.html, trackingLinks.trackingOf(copy, wanted));
  }
  if (mail.listUnsubscribe && unsubscribeLinks.isHttps) {
    const url = unsubscribeLinks.url({ ...copy, recipient: recipient.address.address });
    // RFC 8058 §3.1: both fields, an https address, and both under the DKIM signature.
    content.headers = [
      ['List-Unsubscribe', `<${url}>`],
      ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
    ];
  }
  return content;
}

function copyOf({ account, mode }: Sender, { messageId }: EmailRecipient) {
  return { accountId: account.id, mode, messageId };
}

/** Content so long that the mail cannot fit is not filled in: its size decides. */
function isFilledIn({ render, html = '', text = '' }: CheckedMail): boolean {
  return render && html.length <= STANDARD_EMAIL_BYTES && text.length <= STANDARD_EMAIL_BYTES;
}

/** Whether recipients get different bytes. */
function isPersonal(mail: CheckedMail): boolean {
  if (mail.listUnsubscribe) return true;
  return ((mail.trackOpens || mail.trackClicks) && mail.html !== undefined) || hasOwnLink(mail);
}

function hasOwnLink({ render, variables, subject, html, text }: CheckedMail): boolean {
  if (!render || Object.hasOwn(variables, UNSUBSCRIBE_VARIABLE)) return false;
  return (
    (html !== undefined && namesLink(html, 'html')) ||
    (text !== undefined && namesLink(text, 'text')) ||
    namesLink(subject, 'text')
  );
}

function recipientsOf(mail: CheckedMail, sender: Sender): EmailRecipient[] {
  return mail.recipients.all.map(({ address, role, key }) => ({
    messageId: newId('msg', sender.nowMs - sender.clockOffsetMs),
    address,
    role,
    simulateSuppressed: simulatesSuppressed(sender.mode, address, mail.sandboxOutcome),
    key,
  }));
}

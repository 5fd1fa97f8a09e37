/**
 * What a mail says once its variables have values, with text derived from html where there is none. Mail that contains its
 * recipient's own unsubscribe link is different for each recipient, all other mail is the same for all.
 */

import { type Account, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { invalid } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
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
import type { EmailRecipient } from './accept-emails.ts';
import { type CheckedMail, subjectIssue } from './check.ts';
import { simulatesSuppressed } from './recipients.ts';

export interface ContentDependencies {
  render(mail: ToRender): Result<Rendered>;
  htmlToText(html: string): string;
  templates: TemplateSource;
  unsubscribeLinks: UnsubscribeLinks;
  trackingLinks: TrackingLinks;
}

export interface Sender {
  account: Account;
  mode: Mode;
  allowedSenders: readonly string[];
  /** By the clock of the mode. */
  nowMs: number;
  /** What that clock is ahead of the real time, which ids carry. */
  clockOffsetMs: number;
}

const NO_NAMES: readonly string[] = [];

/** The parts of a mail as one recipient gets them. */
export interface Content extends Rendered {
  /** Fields of this recipient's own, behind those of the mail. */
  headers?: [name: string, value: string][] | undefined;
}

/** A mail whose variables have values: the parts for the first group of recipients; the others differ in their links. */
export interface FilledMail {
  /** Recipients who get the same bytes. */
  groups: EmailRecipient[][];
  first: Content;
  /** The parts before each group's own is added, where they are the same for all groups. */
  shared?: Rendered | undefined;
}

/**
 * Fills in the variables. With `listMissing` a variable without a value is listed and left empty; otherwise it is treated as
 * the request or the account says.
 */
export function fillIn(
  mail: CheckedMail,
  sender: Sender,
  dependencies: ContentDependencies,
  options: { listMissing: boolean },
): Result<FilledMail> {
  const recipients = recipientsOf(mail, sender);
  const groups = recipients.length > 1 && isPersonal(mail) ? recipients.map((one) => [one]) : [recipients];
  const filled = filledFor(mail, sender, recipients[0]!, dependencies);
  if (!filled.ok) return filled;
  const first = personalised(filled.value, mail, { sender, recipient: recipients[0]! }, dependencies);
  const { subject } = first;
  const required = mail.template?.missing ?? NO_NAMES;
  if (required.length > 0) first.missing = [...new Set([...required, ...first.missing])];
  const { missing } = first;
  if (missing.length > 0 && !options.listMissing) {
    // What a template requires is not left out for a setting's sake.
    if (mail.missingVariables === 'error') return refuse(missingFailure(missing, required));
    if (required.length > 0) return refuse(missingFailure(required, required));
  }
  const issue = subject === mail.subject ? subjectLengthIssue(mail) : subjectIssue(subject!);
  if (issue !== undefined)
    return refuse(invalid([{ field: 'subject', message: `${issue}, with its variables filled in` }]));
  return ok(groups.length === 1 || hasOwnLink(mail) ? { groups, first } : { groups, first, shared: filled.value });
}

/** The parts of the mail with their variables in them. */
export function filledFor(
  mail: CheckedMail,
  sender: Sender,
  recipient: EmailRecipient,
  dependencies: ContentDependencies,
): Result<Rendered> {
  return isFilledIn(mail) ? renderFor(mail, sender, recipient, dependencies) : ok(literal(mail, dependencies));
}

/** Adds what was asked for of the recipient's own: links that lead through us, and headers to unsubscribe with. */
export function personalised(
  content: Rendered,
  mail: CheckedMail,
  { sender, recipient }: { sender: Sender; recipient: EmailRecipient },
  { trackingLinks, unsubscribeLinks }: ContentDependencies,
): Content {
  if (!(mail.listUnsubscribe || mail.trackOpens || mail.trackClicks)) return content;
  const own: Content = { ...content };
  const copy = { accountId: sender.account.id, mode: sender.mode, messageId: recipient.messageId };
  if (own.html !== undefined && (mail.trackOpens || mail.trackClicks)) {
    const wish = { opens: mail.trackOpens, clicks: mail.trackClicks };
    own.html = trackHtml(own.html, trackingLinks.trackingOf(copy, wish));
  }
  if (mail.listUnsubscribe && unsubscribeLinks.isHttps) {
    const url = unsubscribeLinks.url({ ...copy, recipient: recipient.address.address });
    // RFC 8058 §3.1: both fields, an https address, and both under the DKIM signature.
    own.headers = [
      ['List-Unsubscribe', `<${url}>`],
      ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
    ];
  }
  return own;
}

function subjectLengthIssue(mail: CheckedMail): string | undefined {
  return mail.subject.includes('{') ? subjectIssue(mail.subject) : undefined;
}

/** Content so long that the mail cannot fit is not filled in: its size decides. */
function isFilledIn(mail: CheckedMail): boolean {
  return (
    mail.render && (mail.html?.length ?? 0) <= STANDARD_EMAIL_BYTES && (mail.text?.length ?? 0) <= STANDARD_EMAIL_BYTES
  );
}

/** Whether recipients get different bytes. */
function isPersonal(mail: CheckedMail): boolean {
  if (mail.listUnsubscribe) return true;
  return ((mail.trackOpens || mail.trackClicks) && mail.html !== undefined) || hasOwnLink(mail);
}

function hasOwnLink(mail: CheckedMail): boolean {
  if (!mail.render || Object.hasOwn(mail.variables, UNSUBSCRIBE_VARIABLE)) return false;
  return (
    (mail.html !== undefined && namesLink(mail.html, 'html')) ||
    (mail.text !== undefined && namesLink(mail.text, 'text')) ||
    namesLink(mail.subject, 'text')
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

function literal(mail: CheckedMail, dependencies: ContentDependencies): Rendered {
  const { subject, html } = mail;
  const text = mail.text ?? (html === undefined ? undefined : dependencies.htmlToText(html) || undefined);
  return { subject, html, text, missing: [] };
}

function renderFor(
  mail: CheckedMail,
  sender: Sender,
  recipient: EmailRecipient,
  dependencies: ContentDependencies,
): Result<Rendered> {
  const variables = accountVariables(sender.account.settings.variables);
  if (hasOwnLink(mail)) {
    const claim = {
      accountId: sender.account.id,
      mode: sender.mode,
      messageId: recipient.messageId,
      recipient: recipient.address.address,
    };
    variables[UNSUBSCRIBE_VARIABLE] = `<a href="${dependencies.unsubscribeLinks.url(claim)}">Unsubscribe</a>`;
  }
  return dependencies.render({
    subject: mail.subject,
    html: mail.html,
    text: mail.text,
    variables: mail.variables,
    accountVariables: variables,
    optional: mail.template?.optional,
    parsed: mail.template?.parsed,
    keepMissing: mail.missingVariables === 'keep',
    deriveText: true,
  });
}

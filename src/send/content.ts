/**
 * What a mail says once its variables have values, with text derived from html where there is none. Mail that contains its
 * recipient's own unsubscribe link is different for each recipient, all other mail is the same for all.
 */

import { type Account, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { invalid } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Address } from '../mail/address.ts';
import {
  isTemplate,
  missingFailure,
  type Rendered,
  type ToRender,
  UNSUBSCRIBE_VARIABLE,
} from '../templates/templates.ts';
import { type CheckedMail, subjectFault } from './check.ts';
import type { IntakeRecipient } from './intake.ts';
import type { UnsubscribeLinks } from './unsubscribe-link.ts';

/** The account's own variables that exist before they are set. */
const ACCOUNT_DEFAULTS: Readonly<Record<string, string>> = { company_address_html: '', report_abuse_email_html: '' };

export interface ContentDependencies {
  render(mail: ToRender): Result<Rendered>;
  htmlToText(html: string): string;
  unsubscribeLinks: UnsubscribeLinks;
}

export interface Sender {
  account: Account;
  mode: Mode;
  nowMs: number;
}

/** A mail whose variables have values: the parts for the first group of recipients; the others differ in their links. */
export interface Filled {
  /** Recipients who get the same bytes. */
  groups: IntakeRecipient[][];
  first: Rendered;
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
): Result<Filled> {
  const recipients = intakeRecipients(mail, sender);
  const groups = recipients.length > 1 && hasOwnLink(mail) ? recipients.map((one) => [one]) : [recipients];
  const content = contentFor(mail, sender, recipients[0]!, dependencies);
  if (!content.ok) return content;
  const { missing, subject } = content.value;
  if (missing.length > 0 && mail.missingVariables === 'error' && !options.listMissing)
    return refuse(missingFailure(missing));
  const fault = subject === mail.subject ? subjectLengthFault(mail) : subjectFault(subject!);
  if (fault !== undefined)
    return refuse(invalid([{ field: 'subject', message: `${fault}, with its variables filled in` }]));
  return ok({ groups, first: content.value });
}

/** The parts of the mail as this recipient gets them. */
export function contentFor(
  mail: CheckedMail,
  sender: Sender,
  recipient: IntakeRecipient,
  dependencies: ContentDependencies,
): Result<Rendered> {
  return isFilledIn(mail) ? renderFor(mail, sender, recipient, dependencies) : ok(literal(mail, dependencies));
}

function subjectLengthFault(mail: CheckedMail): string | undefined {
  return mail.subject.includes('{') ? subjectFault(mail.subject) : undefined;
}

/** Content so long that the mail cannot fit is not filled in: its size decides. */
function isFilledIn(mail: CheckedMail): boolean {
  return (
    mail.render && (mail.html?.length ?? 0) <= STANDARD_EMAIL_BYTES && (mail.text?.length ?? 0) <= STANDARD_EMAIL_BYTES
  );
}

function hasOwnLink(mail: CheckedMail): boolean {
  if (!mail.render || Object.hasOwn(mail.variables, UNSUBSCRIBE_VARIABLE)) return false;
  const uses = (source: string | undefined): boolean =>
    source?.includes(UNSUBSCRIBE_VARIABLE) === true && isTemplate(source);
  return uses(mail.html) || uses(mail.text) || uses(mail.subject);
}

function intakeRecipients(mail: CheckedMail, sender: Sender): IntakeRecipient[] {
  return mail.recipients.all.map(({ address, role }) => ({
    messageId: newId('msg', sender.nowMs),
    address,
    role,
    simulateSuppressed: sender.mode === 'sandbox' && simulatedOutcome(mail, address) === 'suppressed',
  }));
}

/** What the sandbox is asked to simulate: the header decides before the local part. */
function simulatedOutcome(mail: CheckedMail, address: Address): string {
  return mail.sandboxOutcome ?? address.local.split('+', 1)[0]!.toLowerCase();
}

function literal(mail: CheckedMail, dependencies: ContentDependencies): Rendered {
  const { subject, html } = mail;
  const text = mail.text ?? (html === undefined ? undefined : dependencies.htmlToText(html) || undefined);
  return { subject, missing: [], ...(html !== undefined && { html }), ...(text !== undefined && { text }) };
}

function renderFor(
  mail: CheckedMail,
  sender: Sender,
  recipient: IntakeRecipient,
  dependencies: ContentDependencies,
): Result<Rendered> {
  const accountVariables: Record<string, string> = { ...ACCOUNT_DEFAULTS, ...sender.account.settings.variables };
  if (hasOwnLink(mail)) {
    const claim = {
      accountId: sender.account.id,
      mode: sender.mode,
      messageId: recipient.messageId,
      recipient: recipient.address.address,
    };
    accountVariables[UNSUBSCRIBE_VARIABLE] = `<a href="${dependencies.unsubscribeLinks.url(claim)}">Unsubscribe</a>`;
  }
  return dependencies.render({
    subject: mail.subject,
    html: mail.html,
    text: mail.text,
    variables: mail.variables,
    accountVariables,
    keepMissing: mail.missingVariables === 'keep',
    deriveText: true,
  });
}

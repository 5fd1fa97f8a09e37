/**
 * Reports what a send would do, without doing it: the rendered parts, the exact size, suppressed recipients, and warnings about what would
 * hurt delivery. Whatever refuses a real send because of its form also refuses the dry run; missing variables, an unverified sender, and an
 * email that is too large become warnings.
 */
import { MAXIMUM_EMAIL_BYTES, STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { type Failure, failure } from '../base/failure.ts';
import { composeSkeleton, type FileBySize } from '../mail/compose/compose.ts';
import { newMessageId } from '../mail/compose/header.ts';
import type { Database } from '../storage/database.ts';
import { type AddressHash, suppressedAmongOperation } from '../suppressions/suppressions.ts';
import type { CheckedMail } from './check.ts';
import { type FilledMail, type FillInDependencies, mailToCompose, personalize } from './compose-emails.ts';
import { sizesOf, type UploadedFile } from './large.ts';
import type { Sender } from './mail-header.ts';
import { largeSizeIssues, type SizeIssue, sizeIssue } from './size-limits.ts';

/** Gmail clips the html of a message after this many bytes. */
const GMAIL_CLIP_BYTES = 102 * 1024;

interface Warning {
  code: string;
  message: string;
  remedy: string;
}

export interface DryRun {
  subject: string;
  html: string | null;
  text: string | null;
  sizeBytes: number;
  limitBytes: number;
  suppressed: string[];
  missingVariables: string[];
  warnings: Warning[];
}

/** Returns known problems for live mail of a verified sender, by account and domain. */
export type SenderAdvice = (accountId: string, fromDomain: string) => Promise<Warning[]>;

/** Warnings that name the reason for which a real send is refused. */
const REFUSALS = ['SENDER_NOT_VERIFIED', 'EMAIL_SIZE_EXCEEDED', 'TEMPLATE_VARIABLE_MISSING'] as const;

/** Returns why a real send of the same email would be refused; undefined if nothing that the dry run checks refuses it. */
export function refusalAfter({ warnings }: Pick<DryRun, 'warnings'>): Failure | undefined {
  for (const code of REFUSALS) {
    const warning = warnings.find((one) => one.code === code);
    if (warning !== undefined) return failure(code, { message: warning.message });
  }
  return undefined;
}

interface ShownMail {
  filled: FilledMail;
  /** The files of its submission; undefined if it names none. */
  files: readonly UploadedFile[] | undefined;
  senderFailure: Failure | undefined;
}

interface DryRunDependencies extends FillInDependencies {
  database: Database;
  addressHash: AddressHash;
  senderAdvice?: SenderAdvice | undefined;
}

/** Returns the mail as the first recipient would get it. */
export async function dryRun(
  dependencies: DryRunDependencies,
  mail: CheckedMail,
  sender: Sender,
  { filled, files, senderFailure }: ShownMail,
): Promise<DryRun> {
  const { unsubscribeLinks, senderAdvice } = dependencies;
  const content = personalize(filled.parts, mail, { sender, recipient: filled.groups[0]![0]! }, dependencies);
  const messageId = newMessageId(mail.from.domain, sender.nowMs);
  const attachments = files ?? mail.files.map((file) => ({ ...file, sizeBytes: file.content.length }));
  const skeleton = composeSkeleton(mailToCompose<FileBySize>(mail, sender, { content, messageId, attachments }));
  const { approvedEmailBytes } = sender.account;
  const tooLarge = files
    ? largeSizeIssues(sizesOf(skeleton), approvedEmailBytes)
    : [sizeIssue(skeleton.sizeBytes)].filter((one) => one !== undefined);
  const result: DryRun = {
    subject: content.subject!,
    html: content.html ?? null,
    text: content.text ?? null,
    sizeBytes: skeleton.sizeBytes,
    limitBytes: files ? Math.min(approvedEmailBytes, MAXIMUM_EMAIL_BYTES) : STANDARD_EMAIL_BYTES,
    suppressed: await suppressedAmong(dependencies, mail, sender, filled),
    missingVariables: content.missing,
    warnings: [],
  };
  const { isHttps } = unsubscribeLinks;
  result.warnings = warningsOf(mail, sender, result, { senderFailure, isHttps, tooLarge });
  if (senderAdvice !== undefined && sender.mode === 'live' && senderFailure === undefined)
    result.warnings.push(...(await senderAdvice(sender.account.id, mail.from.domain)));
  return result;
}

async function suppressedAmong(
  { database, addressHash }: Pick<DryRunDependencies, 'database' | 'addressHash'>,
  mail: CheckedMail,
  sender: Sender,
  filled: FilledMail,
): Promise<string[]> {
  const simulated = new Set<unknown>();
  for (const recipient of filled.groups.flat()) if (recipient.simulateSuppressed) simulated.add(recipient.address);
  const found = new Set(
    await database.execute(suppressedAmongOperation, {
      addresses: mail.recipients.all.map(({ key: email }) => ({
        accountId: sender.account.id,
        mode: sender.mode,
        email,
        addressHash: addressHash(sender.account.id, email),
      })),
      nowMs: sender.nowMs - sender.clockOffsetMs,
    }),
  );
  const hit = mail.recipients.all.filter((recipient) => found.has(recipient.key) || simulated.has(recipient.address));
  return hit.map((recipient) => recipient.address.address);
}

function warningsOf(
  mail: CheckedMail,
  sender: Sender,
  result: DryRun,
  { senderFailure, isHttps, tooLarge }: { senderFailure: Failure | undefined; isHttps: boolean; tooLarge: SizeIssue[] },
): Warning[] {
  const warnings: Warning[] = [];
  const warn: Warn = (applies, code, message, remedy) => {
    if (applies) warnings.push({ code, message, remedy });
  };
  warn(
    senderFailure !== undefined,
    'SENDER_NOT_VERIFIED',
    senderFailure?.message ?? '',
    'POST /send rejects the email until you fix this.',
  );
  const required = mail.template?.missing ?? [];
  const refused = mail.missingVariables === 'error' ? result.missingVariables : required;
  warn(
    refused.length > 0,
    'TEMPLATE_VARIABLE_MISSING',
    `Variables without a value: ${refused.join(', ')}.`,
    `Add them to templateVariables, ${required.length === 0 ? 'set missingVariables, ' : ''}or send the content literally with render: false.`,
  );
  for (const { message, remedy } of tooLarge) warn(true, 'EMAIL_SIZE_EXCEEDED', message, remedy);
  warnOfContent(warn, mail, { html: result.html, isHttps, accountVariables: sender.account.settings.variables });
  return warnings;
}

type Warn = (applies: boolean, code: string, message: string, remedy: string) => void;

interface ShownContent {
  html: string | null;
  isHttps: boolean;
  accountVariables: Record<string, string>;
}

/** Warns about content that can be sent but should be improved. */
function warnOfContent(warn: Warn, mail: CheckedMail, { html, isHttps, accountVariables }: ShownContent): void {
  const sources = `${mail.html ?? ''}\n${mail.text ?? ''}`;
  warn(
    mail.text === undefined,
    'NO_TEXT_PART',
    'The email has no text part; the text shown is derived from the html.',
    'Add a text part; spam filters and email clients without html use it.',
  );
  warn(
    html !== null && Buffer.byteLength(html) > GMAIL_CLIP_BYTES,
    'GMAIL_CLIPPING',
    `The html is ${Buffer.byteLength(html ?? '')} bytes; Gmail clips messages after ${GMAIL_CLIP_BYTES}.`,
    'Shorten the html, or move inline styles and images out of it.',
  );
  warn(
    !mail.listUnsubscribe &&
      !/unsubscribe/i.test(sources) &&
      !mail.headers.some(([name]) => name.toLowerCase() === 'list-unsubscribe'),
    'NO_UNSUBSCRIBE',
    'The message has no unsubscribe link.',
    'Add {{unsubscribe_email_html}} to the content, unless the recipient must get this email.',
  );
  warn(
    mail.listUnsubscribe && !isHttps,
    'LIST_UNSUBSCRIBE_NEEDS_HTTPS',
    'One-click unsubscribing is disabled: the public URL of this service is not https, and email clients accept only https.',
    'Ask the operator to set POSTRIDER_BASE_URL to an https URL.',
  );
  warn(
    mail.render &&
      sources.includes('company_address_html') &&
      !accountVariables.company_address_html &&
      !mail.variables.company_address_html,
    'COMPANY_ADDRESS_EMPTY',
    'The content uses company_address_html, but the account has no address set.',
    'Set it with PATCH /account { "variables": { "company_address_html": "…" } }.',
  );
  warn(
    (mail.trackOpens || mail.trackClicks) && mail.html === undefined,
    'TRACKING_WITHOUT_HTML',
    'Opens and clicks are tracked in html only, and this email has no html.',
    'Add an html part, or omit enableOpenTracking and enableClickTracking.',
  );
}

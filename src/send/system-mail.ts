/**
 * Sends mail from the service itself, such as account notifications. This mail is accepted and delivered like any other mail, from the same
 * queue, but under a separate account that no user can log in to. It therefore appears in no account's messages, counts against no account,
 * and has no webhooks, so that notifications about webhooks never trigger more of them. The sender is postmaster at the host name of the
 * service. RFC 3834 headers prevent automatic replies.
 */
import { createHash } from 'node:crypto';
import { accountOperation, logoOperation } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Notice, Notify, OperatorNotice } from '../base/notice.ts';
import { type Address, parseAddress, sameAddressKey } from '../mail/address.ts';
import { compose, type MailToCompose } from '../mail/compose/compose.ts';
import type { ComposedReport } from '../mail/compose/delivery-report.ts';
import { mailboxText } from '../mail/compose/header.ts';
import { renderNotice } from '../mail/compose/notice.ts';
import { toSevenBit } from '../mail/mime/seven-bit.ts';
import { FORWARDED_FIELD } from '../mail/report/letter.ts';
import type { EmailOptions, Retain } from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import type { AddressHash } from '../suppressions/suppressions.ts';
import { findSuppressionOperation, unsuppressOperation } from '../suppressions/suppressions.ts';
import type { ReportMail } from '../tls-reports/tls-reports.ts';
import {
  NOTICE_TOPICS,
  noticeContactsOperation,
  noticeRecipients,
  operatorEmailsOperation,
  reachable,
} from '../users/users.ts';
import { type ComposedEmail, createAcceptEmails, type EmailsToAccept } from './accept-emails.ts';

/** The account that owns all mail from the service itself. */
export const SYSTEM_ACCOUNT = 'acc_postrider';
const ENDPOINT = '/notices';
const LIFETIME_SECONDS = 259_200;

interface SystemMailOptions {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  addressHash: AddressHash;
  /** Names of this service; the first that is valid in an address is the sender's domain. */
  hostnames: readonly string[];
  /** Public URL of the service, if it is configured: notices link to the portal. */
  baseUrl: string | undefined;
  /** Called when mail was accepted and can be delivered. */
  onAccepted(): void;
}

/** Returns postmaster at the first host name that is valid in an address; undefined if there is none. */
function systemSender(hostnames: readonly string[]): Address | undefined {
  for (const name of hostnames) {
    const sender = parseAddress(`Postrider <postmaster@${name}>`);
    if (sender.ok) return sender.value;
  }
  return undefined;
}

type MailParts = Pick<MailToCompose, 'subject' | 'text' | 'html' | 'headers' | 'attachments' | 'reportType'> &
  Partial<Pick<MailToCompose, 'replyTo'>>;

function emailTo(
  recipient: Address,
  sender: Address,
  { parts, nowMs, options }: { parts: MailParts; nowMs: number; options: Partial<EmailOptions> },
): ComposedEmail {
  const messageId = `<${randomText(26)}@${sender.domain}>`;
  const { content, smtpUtf8 } = compose({
    from: sender,
    to: [recipient],
    cc: [],
    replyTo: [],
    messageId,
    dateMs: nowMs,
    ...parts,
  });
  return {
    headerFrom: sender.name === '' ? sender.address : `${sender.name} <${sender.address}>`,
    headerTo: { to: [recipient.address], cc: [] },
    envelopeFrom: sender.address,
    subject: parts.subject,
    headerMessageId: messageId,
    tags: [],
    metadata: {},
    options: { requireTls: false, smtpUtf8, eightBit: false, expiresAfterSeconds: LIFETIME_SECONDS, ...options },
    content,
    recipients: [{ messageId: newId('msg', nowMs), address: recipient, role: 'to', simulateSuppressed: false }],
  };
}

/** The content of a message to users or operators. */
type NoticeParts = Pick<MailToCompose, 'subject' | 'html'> & {
  text: string;
  attachments?: MailToCompose['attachments'];
};

const AUTOMATIC = [['Auto-Submitted', 'auto-generated']] as const;

/** A message to one person, such as one with a private link. Its content is not kept after delivery. */
export interface PersonalMail {
  to: string;
  subject: string;
  text: string;
}

/** A composed delivery report (src/mail/compose/delivery-report.ts). */
export interface ReportToSend {
  /** Only one report is sent per key, however often it is requested. */
  key: string;
  from: Address;
  to: Address;
  messageId: string;
  report: ComposedReport;
}

/** A message to operators that forwards an inbound message. */
export interface ForwardedMail {
  /** Only one message is sent per key. */
  key: string;
  to: string;
  /** Null if it is not a valid address. */
  replyTo: string | null;
  subject: string;
  text: string;
  /** The inbound message as received. */
  original: Buffer;
}

export interface SystemMailer {
  /** Whether the service has a host name to send from. */
  readonly canSend: boolean;
  /** The sender address of mail from the service; undefined if the service has no host name to send from. */
  readonly sender: Address | undefined;
  /** Sends a notice to the users of the account who receive its kind. */
  notify: Notify;
  notifyOperators: Notify<OperatorNotice>;
  /**
   * Resolves with false if sendTo() would send nothing: the service has no host name to send from, mail cannot reach the address, or the
   * recipient marked earlier mail from the service as spam.
   */
  canSendTo(email: string): Promise<boolean>;
  /** Resolves with true when the message is accepted, or with false if canSendTo() is false. */
  sendTo(mail: PersonalMail): Promise<boolean>;
  /**
   * Forwards a message as an attachment, so that SPF and DMARC of its author do not matter. Resolves with true when the message is
   * accepted, now or earlier, or with false if the service has no host name to send from or mail cannot reach the address.
   */
  forward(mail: ForwardedMail): Promise<boolean>;
  /** Resolves when the report is accepted, now or earlier. */
  sendReport(report: ReportMail): Promise<void>;
  /** Resolves when the delivery report is accepted, now or earlier. Its envelope sender is null, so it causes no delivery report itself. */
  sendDeliveryReport(report: ReportToSend): Promise<void>;
}

/** Composes a notice as the account wants it: with its name, its logo, and its time zone. */
async function accountNotice(
  database: Database,
  {
    notice,
    isToUsers,
    senderDomain,
    baseUrl,
  }: { notice: Notice; isToUsers: boolean; senderDomain: string; baseUrl: string | undefined },
): Promise<NoticeParts> {
  const { accountId, kind, subject } = notice;
  const account = await database.execute(accountOperation, accountId);
  const logo = await database.execute(logoOperation, accountId);
  const { name = accountId, timeZone = 'UTC' } = account ?? {};
  const logoId = logo === null ? undefined : `logo@${senderDomain}`;
  const { text, html } = renderNotice(notice, {
    sender: name,
    timeZone,
    logoId,
    footer: isToUsers
      ? `You receive notices about ${NOTICE_TOPICS[kind]} of ${name} (${accountId}).`
      : `You receive this notice as an operator, because no user of ${name} (${accountId}) who receives these notices has a reachable email address.`,
    link:
      isToUsers && kind !== 'account' && baseUrl !== undefined
        ? { text: 'Choose your notices', url: `${baseUrl}/app/live/settings?account=${accountId}` }
        : undefined,
  });
  const attachments =
    logo === null
      ? []
      : [
          {
            name: `logo.${logo.contentType.slice('image/'.length)}`,
            contentType: logo.contentType,
            content: logo.content,
            contentId: logoId!,
          },
        ];
  return { subject, text, html, attachments };
}

type SuppressionDeps = Pick<SystemMailOptions, 'database' | 'clock' | 'addressHash'>;

function listedAddress({ clock, addressHash }: SuppressionDeps, recipient: Address) {
  const email = sameAddressKey(recipient);
  return {
    accountId: SYSTEM_ACCOUNT,
    mode: 'live',
    email,
    addressHash: addressHash(SYSTEM_ACCOUNT, email),
    nowMs: clock.now(),
  } as const;
}

/**
 * Users and operators choose these addresses, so one bounce must not stop all later mail from the service. No user can log in to its
 * account to remove an address from the list.
 */
async function clearSuppressions(deps: SuppressionDeps, recipients: readonly Address[]): Promise<void> {
  for (const recipient of recipients) {
    await deps.database.execute(unsuppressOperation, listedAddress(deps, recipient));
  }
}

/**
 * Returns whether a personal message can be sent. After a bounce it can: the mailbox may have been created since then. Any other
 * suppression stays: other people can request a message to this address, and its owner does not want it.
 */
async function acceptsPersonalMail(deps: SuppressionDeps, recipient: Address): Promise<boolean> {
  const found = await deps.database.execute(findSuppressionOperation, listedAddress(deps, recipient));
  return found === undefined || found.reason === 'bounce';
}

export function createSystemMail(options: SystemMailOptions): SystemMailer {
  const { database, blobs, clock, log, addressHash, baseUrl, onAccepted } = options;
  const acceptEmails = createAcceptEmails({ database, blobs, clock, addressHash, onAccepted });
  const sender = systemSender(options.hostnames);

  const accept = async (
    recipients: readonly Address[],
    parts: NoticeParts,
    { key, retain }: { key: string; retain: Retain },
  ): Promise<void> => {
    const nowMs = clock.now();
    const complete = { attachments: [], ...parts, headers: AUTOMATIC };
    // Each recipient gets a separate email, so that recipients do not see each other.
    const emails = recipients.map((to) => emailTo(to, sender!, { parts: complete, nowMs, options: {} }));
    await acceptEmails(toAccept(emails, { key, text: parts.text, nowMs, retain }));
  };

  /** Returns false, and logs why, if mail cannot be sent from this service or to any of the recipients. */
  const canReach = (recipients: readonly Address[], about: { accountId?: string; subject: string }): boolean => {
    if (sender !== undefined && recipients.length > 0) return true;
    const why = sender
      ? 'No user of the account and no operator has an address that mail can reach. Create a user with postrider user create.'
      : 'Postrider has no host name to send mail from. Set POSTRIDER_SMTP_HOSTNAME or POSTRIDER_BASE_URL.';
    log.warn({ ...about, why }, 'account notification failed');
    return false;
  };

  const notify = async (notice: Notice): Promise<void> => {
    const { accountId, kind, key, subject } = notice;
    const contacts = await database.execute(noticeContactsOperation, accountId);
    const { sentTo, isWanted, addresses } = noticeRecipients(contacts, kind);
    if (!isWanted) {
      log.info({ accountId, kind, subject }, 'account notification skipped');
      return;
    }
    if (!canReach(addresses, { accountId, subject })) return;
    const about = { notice, isToUsers: sentTo === 'users', senderDomain: sender!.domain, baseUrl };
    await clearSuppressions(options, addresses);
    await accept(addresses, await accountNotice(database, about), { key, retain: '7d' });
  };

  const notifyOperators = async (notice: OperatorNotice): Promise<void> => {
    const { key, subject } = notice;
    const operators = await database.execute(operatorEmailsOperation, null);
    const recipients = operators.flatMap((email) => reachable(email) ?? []);
    if (!canReach(recipients, { subject })) return;
    const footer = 'You receive this notice as an operator of Postrider.';
    const { text, html } = renderNotice(notice, { sender: 'Postrider', timeZone: 'UTC', footer });
    await clearSuppressions(options, recipients);
    await accept(recipients, { subject, text, html }, { key, retain: '7d' });
  };

  const canSendTo = async (email: string): Promise<boolean> => {
    const recipient = reachable(email);
    return sender !== undefined && recipient !== undefined && acceptsPersonalMail(options, recipient);
  };

  const sendTo = async ({ to, subject, text }: PersonalMail): Promise<boolean> => {
    const recipient = reachable(to);
    if (sender === undefined || recipient === undefined) return false;
    if (!(await acceptsPersonalMail(options, recipient))) return false;
    await clearSuppressions(options, [recipient]);
    await accept([recipient], { subject, text }, { key: randomText(32), retain: 'none' });
    return true;
  };

  const sendReport = async (report: ReportMail): Promise<void> => {
    const { key, from, to, subject, text, headers, reportType, file, lifetimeSeconds } = report;
    const author = parseAddress(from);
    if (!author.ok) throw new Error(`the sender of a report must be an email address, not ${from}`);
    const nowMs = clock.now();
    const parts = { subject, text, headers, reportType, attachments: [file] };
    const options = { tlsOptional: true as const, expiresAfterSeconds: lifetimeSeconds };
    await acceptEmails(
      toAccept([emailTo(to, author.value, { parts, nowMs, options })], { key, text, nowMs, retain: 'none' }),
    );
  };

  const sendDeliveryReport = async (mail: ReportToSend): Promise<void> => {
    const nowMs = clock.now();
    const { key } = mail;
    await acceptEmails(toAccept([deliveryReportEmail(mail, nowMs)], { key, text: key, nowMs, retain: 'none' }));
  };

  const forward = async ({ key, to, replyTo, subject, text, original }: ForwardedMail): Promise<boolean> => {
    const recipient = reachable(to);
    if (sender === undefined || recipient === undefined) return false;
    const nowMs = clock.now();
    const parts = {
      subject,
      text,
      replyTo: replyTo === null ? [] : [reachable(replyTo) ?? []].flat(),
      headers: [...AUTOMATIC, [FORWARDED_FIELD, createHash('sha256').update(key).digest('hex').slice(0, 32)]] as const,
      attachments: [{ name: 'message.eml', contentType: 'message/rfc822', content: sevenBit(original) }],
    };
    const email = emailTo(recipient, sender, { parts, nowMs, options: {} });
    await clearSuppressions(options, [recipient]);
    await acceptEmails(toAccept([email], { key, text, nowMs, retain: 'none' }));
    return true;
  };

  return {
    canSend: sender !== undefined,
    sender,
    notify,
    notifyOperators,
    canSendTo,
    sendTo,
    forward,
    sendReport,
    sendDeliveryReport,
  };
}

function deliveryReportEmail({ from, to, messageId, report }: ReportToSend, nowMs: number): ComposedEmail {
  const { content, subject, smtpUtf8, eightBit } = report;
  return {
    headerFrom: mailboxText(from),
    headerTo: { to: [to.address], cc: [] },
    envelopeFrom: '',
    subject,
    headerMessageId: messageId,
    tags: [],
    metadata: {},
    options: { requireTls: false, smtpUtf8, eightBit, expiresAfterSeconds: LIFETIME_SECONDS },
    content,
    recipients: [{ messageId: newId('msg', nowMs), address: to, role: 'to', simulateSuppressed: false }],
  };
}

/** Returns the message in the form that an attached message requires (RFC 2046 §5.2.1), or unchanged if it cannot be converted. */
function sevenBit(original: Buffer): Buffer {
  const converted = toSevenBit(original, { eightBit: true, utf8Headers: true });
  return converted.ok ? converted.content : original;
}

/** Builds the call that accepts these emails, once per key. All of them have the same sender and lifetime. */
function toAccept(
  emails: ComposedEmail[],
  { key, text, nowMs, retain }: { key: string; text: string; nowMs: number; retain: Retain },
): EmailsToAccept {
  const bodyHash = createHash('sha256').update(text).digest();
  return {
    accountId: SYSTEM_ACCOUNT,
    mode: 'live',
    source: 'http',
    origin: {},
    nowMs,
    clockOffsetMs: 0,
    emails,
    from: emails[0]!.envelopeFrom,
    retain,
    sendAtMs: null,
    expiresAfterSeconds: emails[0]!.options.expiresAfterSeconds,
    idempotency: { endpoint: ENDPOINT, key, bodyHash, status: 202 },
  };
}

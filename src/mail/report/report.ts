/**
 * What mail that comes back says: that a mail bounced or waits (RFC 3464 and its dialects), that a recipient complained (RFC 5965),
 * or nothing of the kind. Reading only: whether a report is true, and which message it is about, is for who asks.
 */

import { htmlToText } from '../html/html-text.ts';
import { saysAutomatic, seemsAutomatic } from './automatic.ts';
import { dialectOf, isFromDaemon, speaksOfFailure } from './bounce-words.ts';
import { type DeliveryStatus, readDeliveryStatus } from './delivery-status.ts';
import { readComplaint } from './feedback-report.ts';
import { attachedOriginal, type QuotedHeader, quotedHeader, reportedMail } from './original-mail.ts';
import { quotedTokens } from './quoted-tokens.ts';
import { type Fields, REPORT_LIMITS, type ReceivedMail, type ReportLimits, readReceived } from './received.ts';
import type { Report, ReportedRecipient } from './report-types.ts';
import { addressesIn, isVague } from './said-reply.ts';
import { type HumanText, readTextBounce } from './text-bounce.ts';

export type { Report, ReportedMail, ReportedRecipient } from './report-types.ts';

const MAX_TEXT = 64_000;

/** What a mail has for people: its plain texts, else its html. */
function textsForPeople(mail: ReceivedMail): string[] {
  const texts: string[] = [];
  let length = 0;
  for (const part of mail.parts) {
    if (!part.type.startsWith('text/plain') || length > MAX_TEXT) continue;
    const text = part.text().slice(0, MAX_TEXT);
    length += text.length;
    if (text.trim() !== '') texts.push(text);
  }
  if (texts.length > 0) return texts;
  const broken = mail.parts.find((part) => part.type.startsWith('multipart/'));
  if (broken !== undefined) return [broken.text().slice(0, MAX_TEXT)];
  const html = mail.parts.find((part) => part.type === 'text/html');
  return html === undefined ? [] : [htmlToText(html.text()).slice(0, MAX_TEXT)];
}

const none = (why: Extract<Report, { kind: 'none' }>['why']): Report => ({ kind: 'none', why });

function headerWords({ header }: ReceivedMail): string {
  const names = ['from', 'subject', 'x-mailer', 'message-id'];
  const flags = [
    'x-failed-recipients',
    'x-ms-exchange-organization-scl',
    'x-yahoofilteredbulk',
    'x-ymailisg',
    'x-mdaemon-deliver-to',
  ];
  return [...names.map((name) => header.first(name)), ...flags.filter((name) => header.first(name) !== '')].join('\n');
}

/** The fields of a delivery report, from their part or, where programs put them there, from the text. */
function deliveryStatusOf(mail: ReceivedMail, text: string): DeliveryStatus | undefined {
  const part = mail.parts.find((one) => /^message\/(?:global-)?delivery-status$/.test(one.type));
  const status = part && readDeliveryStatus(part.latin1());
  if (status !== undefined && status.recipients.length > 0) return status;
  const at = text.search(/^final-recipient[ \t]*:/im);
  return at < 0 ? status : readDeliveryStatus(Buffer.from(text.slice(at).replaceAll('\n', '\r\n')).toString('latin1'));
}

/** What the text says of a recipient that the fields leave out. */
function completed(recipient: ReportedRecipient, said: readonly ReportedRecipient[]): ReportedRecipient {
  const { finalRecipient } = recipient;
  const same = said.find((one) => one.finalRecipient?.toLowerCase() === finalRecipient?.toLowerCase());
  const more = same ?? (said.length === 1 ? said[0] : undefined);
  if (more === undefined) return recipient;
  const isVagueNow = recipient.status === null || isVague(recipient.status);
  const isFitting =
    more.status !== null && !isVague(more.status) && more.status[0] === (recipient.status ?? more.status)[0];
  return {
    ...recipient,
    finalRecipient: finalRecipient ?? more.finalRecipient,
    status: isVagueNow && recipient.diagnostic === null && isFitting ? more.status : (recipient.status ?? more.status),
    smtpCode: recipient.smtpCode ?? (recipient.diagnostic === null ? more.smtpCode : null),
    diagnostic: recipient.diagnostic ?? more.diagnostic,
  };
}

interface Returned {
  mail: ReceivedMail;
  text: string;
  original: Fields | undefined;
  human: HumanText;
}

/** The line that says that the mail follows, in front of it. */
const FOLLOWS =
  /^[\s*=#>.-]*$|(?:original|unsent|returned|bounced|undelivered) (?:message|mail|e-mail)|copy of (?:the|your) |(?:message )?headers? (?:follow|of)|below this line/i;

/** The lines in front of the mail that is quoted behind them. */
function linesForPeople(lines: readonly string[], quoted: QuotedHeader | undefined): readonly string[] {
  let end = quoted === undefined || quoted.firstLine < 2 ? lines.length : quoted.firstLine;
  for (let most = 6; most > 0 && end > 3 && FOLLOWS.test(lines[end - 1]!); most -= 1) end -= 1;
  return lines.slice(0, end);
}

/** Splits the text into what is for people and the mail that is quoted behind it. */
function returnedMail(mail: ReceivedMail, attached: Fields | undefined): Returned {
  const texts = textsForPeople(mail);
  const text = texts.join('\n');
  const lines = text.split('\n');
  const quoted = quotedHeader(lines);
  const original = attached ?? quoted?.fields;
  const own = ['to', 'from', 'delivered-to', 'x-original-to', 'envelope-to'].flatMap((name) => mail.header.all(name));
  const first = (texts[0] ?? '').split('\n');
  const shown = texts.length > 1 && texts[0]!.includes('@') ? first : lines;
  return {
    mail,
    text,
    original,
    human: {
      lines: linesForPeople(shown, attached === undefined ? quotedHeader(shown) : undefined),
      subject: mail.header.first('subject'),
      failed: addressesIn(mail.header.all('x-failed-recipients').join(', '), 100),
      own: new Set(addressesIn(own.join(', ').toLowerCase(), 20)),
      to: addressesIn(original?.all('to').join(', ') ?? '', 100),
    },
  };
}

function readByFields({ mail, text, original, human }: Returned): Report | undefined {
  const status = deliveryStatusOf(mail, text);
  if (status === undefined || status.recipients.length === 0) return undefined;
  const isComplete = status.recipients.every((one) => one.finalRecipient !== null && one.diagnostic !== null);
  const said = isComplete ? [] : readTextBounce(human);
  const recipients = status.recipients.map((one) => completed(one, said));
  const dialect = dialectOf(`${headerWords(mail)}\n${status.reportingMta}`, human.lines.join('\n'), 'rfc3464');
  return { kind: 'bounce', recipients, mail: reportedMail(mail, original, text), dialect };
}

function readByText({ mail, text, original, human }: Returned): Report | undefined {
  const words = human.lines.join('\n');
  const failure = speaksOfFailure(human.subject, words);
  const isBounce =
    human.failed.length > 0 || (isFromDaemon(mail.header.first('from')) && (failure.subject || failure.text));
  if (!isBounce) return undefined;
  let recipients = readTextBounce(human);
  if (recipients.length === 0) recipients = readTextBounce({ ...human, lines: text.split('\n') });
  if (recipients.length === 0 && original === undefined) return undefined;
  const others = human.to.filter((one) => !human.own.has(one.toLowerCase()));
  if (recipients.length === 0) recipients = readTextBounce({ ...human, failed: others.slice(0, 1) });
  if (recipients.length === 0) return undefined;
  const dialect = dialectOf(headerWords(mail), words, 'text');
  return { kind: 'bounce', recipients, mail: reportedMail(mail, original, text), dialect };
}

/** Reads a mail that came back. Never throws; what is beyond the limits is not read. */
export function readReport(raw: Uint8Array, limits: Partial<ReportLimits> = {}): Report {
  const mail = readReceived(raw, { ...REPORT_LIMITS, ...limits });
  if (mail === undefined) return none('unreadable');
  const attached = attachedOriginal(mail);
  const complaint = readComplaint(mail, attached);
  if (complaint === 'none') return none('not-a-report');
  const returned = returnedMail(mail, attached);
  const { text } = returned;
  if (complaint) {
    const tokens = quotedTokens(mail, returned.original);
    return { kind: 'complaint', ...complaint, tokens, mail: reportedMail(mail, returned.original, text) };
  }
  const byFields = readByFields(returned);
  if (byFields) return byFields;
  const automatic = saysAutomatic(mail);
  if (automatic && returned.human.failed.length === 0) return none(automatic);
  return readByText(returned) ?? none(automatic ?? seemsAutomatic(mail, text) ?? 'not-a-report');
}

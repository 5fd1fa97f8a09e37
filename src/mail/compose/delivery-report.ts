/**
 * Composes a delivery report (RFC 3464): a readable text, a message/delivery-status for programs, and the original message or its header.
 * One report is about one recipient. Pure: src/send decides which report is due and who receives it.
 */

import { isAscii } from 'node:buffer';
import { randomText } from '../../base/ids.ts';
import { type Address, domainToAscii, needsSmtpUtf8, wireLocal } from '../address.ts';
import { addressField, fold, formatDate, textField } from './header.ts';
import { encodeText, resetScratch } from './transfer-encoding.ts';

/** RFC 3464 §2.3.3. */
export type ReportAction = 'failed' | 'delayed' | 'delivered' | 'relayed';

export interface DeliveryReport {
  action: ReportAction;
  from: Address;
  /** The envelope sender of the message. */
  to: Address;
  /** With angle brackets. */
  messageId: string;
  dateMs: number;
  /** Host name of this service. */
  reportingMta: string;
  /** ENVID, decoded. */
  envid: string | undefined;
  /** When the message was accepted, Unix ms. */
  arrivalMs: number;
  /** `local@domain`. */
  recipient: string;
  /** ORCPT, decoded: an address type, a semicolon and the address. */
  originalRecipient: string | undefined;
  /** Enhanced status code (RFC 3463). */
  status: string;
  remoteMta: string | null;
  /** The reply of the remote server, or with `isReply` false the cause as text; null without either. */
  diagnostic: string | null;
  isReply: boolean;
  lastAttemptMs: number;
  /** When a delayed message expires. */
  willRetryUntilMs: number | undefined;
  /** What the sender can do, as a sentence. */
  advice: string | undefined;
  original: { subject: string; messageId: string; returned: ReturnedMessage };
}

/** `content` is the complete message, or with `headersOnly` its header fields. */
export interface ReturnedMessage {
  headersOnly: boolean;
  content: Buffer;
}

export interface ComposedReport {
  content: Buffer;
  subject: string;
  /** Whether a header address requires SMTPUTF8. */
  smtpUtf8: boolean;
  eightBit: boolean;
}

const MAX_FIELD_LENGTH = 900;
const NON_ASCII = /[^\x00-\x7f]/;

/** Returns one field of message/delivery-status: ASCII, without control characters, folded. */
function statusField(name: string, value: string): string {
  const clean = value
    .replace(/[\x00-\x1f\x7f]+/g, ' ')
    .replace(/[^\x20-\x7e]/gu, '?')
    .trim()
    .slice(0, MAX_FIELD_LENGTH);
  return `${name}: ${fold(clean, name.length + 2)}\r\n`;
}

/** RFC 6533 §3: a non-ASCII address as `utf-8-addr-xtext`, which message/delivery-status may contain. */
function utf8AddressXtext(text: string): string {
  return text.replace(
    /[^\x21-\x7e]|[+=\\]/gu,
    (character) => `\\x{${character.codePointAt(0)!.toString(16).toUpperCase().padStart(2, '0')}}`,
  );
}

function typedAddress(address: string): string {
  const at = address.lastIndexOf('@');
  const local = wireLocal(address.slice(0, at));
  const domain = address.slice(at + 1);
  if (needsSmtpUtf8(address)) return `utf-8; ${utf8AddressXtext(`${local}@${domain}`)}`;
  return `rfc822; ${local}@${domainToAscii(domain) ?? domain}`;
}

function originalRecipientText(original: string): string {
  const at = original.indexOf(';');
  const [type, address] = [original.slice(0, at), original.slice(at + 1)];
  return `${type}; ${type.toLowerCase() === 'utf-8' ? utf8AddressXtext(address) : address}`;
}

function statusPart(report: DeliveryReport): string {
  const { envid, originalRecipient, remoteMta, diagnostic, isReply, willRetryUntilMs } = report;
  let text = '';
  if (envid !== undefined) text += statusField('Original-Envelope-Id', envid);
  text += statusField('Reporting-MTA', `dns; ${report.reportingMta}`);
  text += statusField('Arrival-Date', formatDate(report.arrivalMs));
  text += '\r\n';
  if (originalRecipient !== undefined) {
    text += statusField('Original-Recipient', originalRecipientText(originalRecipient));
  }
  text += statusField('Final-Recipient', typedAddress(report.recipient));
  text += statusField('Action', report.action);
  text += statusField('Status', report.status);
  if (remoteMta !== null) text += statusField('Remote-MTA', `dns; ${remoteMta}`);
  if (diagnostic !== null) text += statusField('Diagnostic-Code', `${isReply ? 'smtp' : 'x-postrider'}; ${diagnostic}`);
  text += statusField('Last-Attempt-Date', formatDate(report.lastAttemptMs));
  if (willRetryUntilMs !== undefined) text += statusField('Will-Retry-Until', formatDate(willRetryUntilMs));
  return text;
}

const SUBJECTS: Readonly<Record<ReportAction, string>> = {
  failed: 'Undelivered mail returned to sender',
  delayed: 'Delivery delayed',
  delivered: 'Delivered',
  relayed: 'Relayed',
};

function openingOf({ action, recipient, willRetryUntilMs }: DeliveryReport): string[] {
  switch (action) {
    case 'failed':
      return [`Your message to ${recipient} could not be delivered.`, 'Postrider will not try again.'];
    case 'delayed':
      return [
        `Your message to ${recipient} has not been delivered yet.`,
        'You do not need to send it again: Postrider keeps trying' +
          `${willRetryUntilMs === undefined ? '' : ` until ${formatDate(willRetryUntilMs)}`}.`,
      ];
    case 'delivered':
      return [`Your message was delivered to the mail server of ${recipient}.`];
    case 'relayed':
      return [
        `Your message to ${recipient} was handed to a relay.`,
        'The relay may not confirm the delivery to the mailbox.',
      ];
  }
}

/** Makes untrusted text a single line. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, MAX_FIELD_LENGTH);
}

function humanText(report: DeliveryReport): string {
  const { remoteMta, diagnostic, isReply, advice, original } = report;
  const lines = [...openingOf(report), ''];
  if (diagnostic !== null) {
    const server = remoteMta === null ? 'The mail server' : `The mail server ${oneLine(remoteMta)}`;
    lines.push(isReply ? `${server} replied:` : 'Reason:', '', `    ${oneLine(diagnostic)}`, '');
  }
  if (advice !== undefined) lines.push(advice, '');
  lines.push('The message:', '');
  lines.push(`    Subject:     ${original.subject === '' ? '(none)' : oneLine(original.subject)}`);
  lines.push(`    Message-ID:  ${oneLine(original.messageId)}`);
  lines.push(`    Accepted:    ${formatDate(report.arrivalMs)}`);
  if (report.envid !== undefined) lines.push(`    Envelope ID: ${oneLine(report.envid)}`);
  lines.push('', `This report was sent automatically by ${report.reportingMta}. Do not reply to it.`, '');
  return lines.join('\n');
}

/** Fields of the part that returns the message; raw UTF-8 in its header makes it message/global (RFC 6533 §6). */
function returnedFields({ headersOnly, content }: ReturnedMessage): string {
  const end = content.indexOf('\r\n\r\n');
  const header = end === -1 ? content : content.subarray(0, end);
  const kinds = headersOnly ? ['text/rfc822-headers', 'message/global-headers'] : ['message/rfc822', 'message/global'];
  const type = isAscii(header) ? kinds[0] : kinds[1];
  const encoding = isAscii(content) ? '7bit' : '8bit';
  return `Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n`;
}

/** Returns the complete report with CRLF line ends. The caller sends it with the null envelope sender. */
export function composeDeliveryReport(report: DeliveryReport): ComposedReport {
  const { from, to, action, original } = report;
  const subject = `${SUBJECTS[action]}: ${report.recipient}`;
  const { content } = original.returned;
  resetScratch();
  const text = encodeText(humanText(report));
  const eightBit = !isAscii(content);
  let boundary = randomText(22);
  while (content.includes(boundary)) boundary = randomText(22);
  const isReference = /^<[\x21-\x7e]{1,900}>$/.test(original.messageId);
  const header = [
    addressField('From', [from]),
    addressField('To', [to]),
    textField('Subject', subject),
    `Date: ${formatDate(report.dateMs)}\r\n`,
    `Message-ID: ${report.messageId}\r\n`,
    ...(isReference ? [`In-Reply-To: ${original.messageId}\r\n`, `References: ${original.messageId}\r\n`] : []),
    'Auto-Submitted: auto-replied\r\n',
    'MIME-Version: 1.0\r\n',
    `Content-Type: multipart/report; report-type=delivery-status;\r\n boundary="=_d.${boundary}"\r\n`,
    ...(eightBit ? ['Content-Transfer-Encoding: 8bit\r\n'] : []),
    '\r\n',
  ].join('');
  const delimiter = `\r\n--=_d.${boundary}`;
  const pieces: (string | Uint8Array)[] = [
    header,
    `${delimiter.slice(2)}\r\nContent-Type: text/plain; charset=utf-8\r\n`,
    `Content-Transfer-Encoding: ${text.encoding}\r\n\r\n`,
    text.data,
    `${delimiter}\r\nContent-Type: message/delivery-status\r\n\r\n`,
    statusPart(report),
    `${delimiter}\r\n${returnedFields(original.returned)}\r\n`,
    content,
    `${delimiter}--\r\n`,
  ];
  return {
    content: Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece, 'utf8') : piece))),
    subject,
    smtpUtf8: needsSmtpUtf8(to) || needsSmtpUtf8(from),
    eightBit: eightBit || NON_ASCII.test(header),
  };
}

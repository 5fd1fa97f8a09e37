/**
 * What may be sent to this peer, and the MAIL and RCPT commands for it. Refuses here, before a byte is written: commands
 * with control characters, content the peer cannot take (RFC 6152, RFC 6531, RFC 1870), mail that wants TLS on a line without.
 */
import { isAscii } from 'node:buffer';
import { domainToAscii, needsSmtpUtf8 } from '../mail/address.ts';
import { dotStuffer } from './dot-stuffing.ts';
import type { SmtpConnection } from './smtp-connection.ts';
import type { LocalRefusal, RecipientResult, SmtpMessage, SmtpStage, SmtpTimeouts } from './smtp-types.ts';

const UNSAFE = /[\x00-\x1f\x7f<>]/;
const NON_ASCII = /[^\x00-\x7f]/;

export interface TransactionContext {
  connection: SmtpConnection;
  extensions: ReadonlyMap<string, string>;
  timeouts: SmtpTimeouts;
  host: string;
  /** The certificate was checked, and is valid for `host`. */
  verified: boolean;
}

export interface CheckedMessage {
  /** By the index of the recipient; set where we refuse ourselves. */
  results: (RecipientResult | undefined)[];
  /** Indexes of the recipients to send to. */
  toSend: number[];
}

/** The address for the wire: with the domain in A-labels unless SMTPUTF8 is in use. Undefined when there is no such form. */
function wireAddress(address: string, utf8: boolean): string | undefined {
  if (utf8 || !NON_ASCII.test(address)) return address;
  const at = address.lastIndexOf('@');
  const domain = domainToAscii(address.slice(at + 1));
  return domain === undefined ? undefined : `${address.slice(0, at)}@${domain}`;
}

function announcedSize(extensions: ReadonlyMap<string, string>): number {
  const size = Number(extensions.get('SIZE') ?? 0);
  return Number.isSafeInteger(size) && size > 0 ? size : Number.POSITIVE_INFINITY;
}

function hasHighBytes(message: SmtpMessage): boolean {
  const { content } = message;
  if (Buffer.isBuffer(content)) return !isAscii(content);
  return Array.isArray(content) && content.some((chunk) => !isAscii(chunk));
}

/** A dot behind a bare CR or LF, in content that can be looked at beforehand. */
function hasBareLineEnds(message: SmtpMessage): boolean {
  const { content } = message;
  if (!Buffer.isBuffer(content) && !Array.isArray(content)) return false;
  const stuffer = dotStuffer();
  return (Buffer.isBuffer(content) ? [content] : content).some((chunk) => stuffer.push(chunk) === undefined);
}

function messageRefusal(
  context: TransactionContext,
  message: SmtpMessage,
): { stage: SmtpStage; local: LocalRefusal } | undefined {
  const { extensions, connection, host } = context;
  const refuse = (code: number, enhanced: string, text: string, stage: SmtpStage = 'mail') => ({
    stage,
    local: { code, enhanced, text },
  });
  if (message.requireTls && connection.tls === undefined) {
    return refuse(550, '5.7.10', `${host} offers no TLS, and the message requires it`, 'starttls');
  }
  if (message.requireTls === 'verified' && !context.verified) {
    return refuse(550, '5.7.10', `the certificate of ${host} was not checked, and the message requires it`, 'starttls');
  }
  if (UNSAFE.test(message.mailFrom)) {
    return refuse(553, '5.1.7', 'the sender has characters that no SMTP command may hold');
  }
  if (message.sizeBytes > announcedSize(extensions)) {
    const text = `the message has ${message.sizeBytes} bytes, ${host} takes at most ${announcedSize(extensions)}`;
    return refuse(552, '5.3.4', text);
  }
  if ((message.smtpUtf8 || needsSmtpUtf8(message.mailFrom)) && !extensions.has('SMTPUTF8')) {
    return refuse(553, '5.6.7', `${host} does not take internationalised mail (SMTPUTF8)`);
  }
  if (!extensions.has('8BITMIME') && (message.eightBit || hasHighBytes(message))) {
    return refuse(554, '5.6.3', `${host} does not take 8-bit content (8BITMIME)`);
  }
  if (hasBareLineEnds(message)) {
    return refuse(554, '5.6.0', 'the content has a dot behind a bare CR or LF, which receivers read differently');
  }
  return undefined;
}

/** Separates what we refuse ourselves from what is worth a command. */
export function checkMessage(context: TransactionContext, message: SmtpMessage): CheckedMessage {
  const results: (RecipientResult | undefined)[] = new Array(message.recipients.length).fill(undefined);
  const refusal = messageRefusal(context, message);
  const toSend: number[] = [];
  for (const [index, recipient] of message.recipients.entries()) {
    let refused = refusal;
    if (!refused && (UNSAFE.test(recipient) || wireAddress(recipient, false) === undefined || recipient === '')) {
      const text = 'the recipient has characters that no SMTP command may hold';
      refused = { stage: 'rcpt', local: { code: 553, enhanced: '5.1.3', text } };
    }
    if (!refused && needsSmtpUtf8(recipient) && !context.extensions.has('SMTPUTF8')) {
      const text = `${context.host} does not take internationalised addresses (SMTPUTF8)`;
      refused = { stage: 'rcpt', local: { code: 553, enhanced: '5.6.7', text } };
    }
    if (refused) results[index] = { recipient, accepted: false, ...refused, message: refused.local.text };
    else toSend.push(index);
  }
  return { results, toSend };
}

/** MAIL and RCPT lines with CRLF, for the recipients at these indexes; parameters only where the peer offers them. */
export function envelopeCommands(
  extensions: ReadonlyMap<string, string>,
  message: SmtpMessage,
  toSend: readonly number[],
): { mail: string; rcpt: string[] } {
  const recipients = toSend.map((index) => message.recipients[index]!);
  const utf8 =
    extensions.has('SMTPUTF8') &&
    (message.smtpUtf8 || needsSmtpUtf8(message.mailFrom) || recipients.some(needsSmtpUtf8));
  let mail = `MAIL FROM:<${wireAddress(message.mailFrom, utf8) ?? ''}>`;
  if (extensions.has('SIZE')) mail += ` SIZE=${message.sizeBytes}`;
  if (extensions.has('8BITMIME') && (message.eightBit || utf8)) mail += ' BODY=8BITMIME';
  if (utf8) mail += ' SMTPUTF8';
  return { mail: `${mail}\r\n`, rcpt: recipients.map((recipient) => `RCPT TO:<${wireAddress(recipient, utf8)}>\r\n`) };
}

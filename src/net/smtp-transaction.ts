/**
 * Sends one message over an open session: MAIL, RCPT, DATA, the content, and the final dot. If the peer supports pipelining (RFC 2920), all
 * commands are sent in one write. Mixed replies are handled as follows:
 *
 *   MAIL refused                → this reply is the result of all recipients
 *   some RCPT refused           → these recipients have their reply as result, the others continue
 *   all RCPT refused, DATA accepted → a lone dot ends the transaction (RFC 2920 §3.1); the recipients keep their refusals
 *   MAIL refused, but RCPT and DATA accepted → the effect of a dot is unknown, so the connection is closed
 *   DATA refused                → this reply is the result of the accepted recipients; RSET is sent before the next message
 *   connection lost             → `stage` is the last command; `dot` means that the peer may have accepted the message
 *
 * Some messages are refused locally, before a byte is written: those with control characters in commands, with content that the peer cannot
 * accept (RFC 6152, RFC 6531, RFC 1870), or that require TLS on an unencrypted connection.
 */

import { isAscii } from 'node:buffer';
import { domainToAscii, needsSmtpUtf8, wireLocal } from '../mail/address.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { Answers, SmtpConnection } from './smtp-connection.ts';
import { dotStuffer, writeContent } from './smtp-content.ts';
import type { LocalRefusal, RecipientResult, SmtpMessage, SmtpStage, SmtpTimeouts } from './smtp-types.ts';

export interface TransactionResult {
  recipients: RecipientResult[];
  /** Whether the server lost or refused pipelined commands; no content was sent. */
  pipeliningFailed?: true;
  /** Whether the connection was lost during pipelined commands. */
  pipeliningSuspected?: true;
  /** Whether the peer still has an envelope, so RSET must be sent before the next MAIL. */
  needsReset: boolean;
  /** Whether the peer replied to a final dot. */
  completed: boolean;
}

function isPositive(reply: SmtpReply | undefined): boolean {
  return reply !== undefined && reply.code >= 200 && reply.code < 300;
}

/** Returns a result for every recipient; those without their own result get `rest`: the reply, or the error that broke the connection. */
function settleRest(
  results: (RecipientResult | undefined)[],
  message: SmtpMessage,
  rest: Omit<RecipientResult, 'recipient'>,
) {
  return message.recipients.map((recipient, index) => results[index] ?? { recipient, ...rest });
}

function failureResult(
  stage: SmtpStage,
  connection: SmtpConnection,
  reply?: SmtpReply,
): Omit<RecipientResult, 'recipient'> {
  if (reply) return { accepted: false, stage, reply };
  const { cause, message } = connection.broken ?? { cause: 'EPROTOCOL', message: 'no reply' };
  return { accepted: false, stage, cause, message };
}

interface Envelope {
  mail: SmtpReply | undefined;
  rcpt: (SmtpReply | undefined)[];
  data: SmtpReply | undefined;
  /** The stage of the command whose reply did not arrive. */
  lostAt: SmtpStage | undefined;
  pipeliningFailed?: boolean;
  pipeliningSuspected?: true;
}

/** The fraction of the envelope's deadline in which a server that has replied to some pipelined commands must send its next reply. */
const NEXT_REPLY_FRACTION = 1 / 5;

/** Servers refuse pipelined commands with texts such as `554 SMTP synchronization error`, `503 Improper use of SMTP command pipelining`. */
const NO_PIPELINING = /pipelin|synchroni[sz]ation error/i;

/** Servers send these replies to commands that they could not parse or that are out of order (RFC 5321 §4.2.4). */
const OUT_OF_SYNC: ReadonlySet<number> = new Set([500, 502, 503]);

/** Returns whether the server accepted MAIL but lost later pipelined commands. Without accepted recipients, a 503 to DATA is normal. */
function isOutOfSync(replies: readonly SmtpReply[], recipients: number): boolean {
  if (!isPositive(replies[0])) return false;
  const isOut = (reply: SmtpReply | undefined): boolean =>
    reply !== undefined && (OUT_OF_SYNC.has(reply.code) || /^5\.5\.[12]$/.test(reply.enhanced ?? ''));
  const rcpt = replies.slice(1, recipients + 1);
  return rcpt.some(isOut) || (rcpt.some(isPositive) && isOut(replies[recipients + 1]));
}

async function sendPipelined(
  context: TransactionContext,
  commands: { mail: string; rcpt: string[] },
): Promise<Envelope> {
  const count = commands.rcpt.length;
  const answers = await context.connection.command(`${commands.mail}${commands.rcpt.join('')}DATA\r\n`, {
    count: count + 2,
    deadlineMs: context.timeouts.envelopeMs,
    nextReplyMs: context.timeouts.envelopeMs * NEXT_REPLY_FRACTION,
  });
  const { replies, broken } = answers;
  const lostAt =
    replies.length === count + 2 ? undefined : replies.length === 0 ? 'mail' : replies.length > count ? 'data' : 'rcpt';
  const closingReply = lostAt && replies.at(-1)?.code === 421 ? replies.at(-1) : undefined;
  const rcpt = commands.rcpt.map((_, index) => replies[index + 1] ?? closingReply);
  const isSilent = broken?.cause === 'ETIMEDOUT' && replies.length > 0;
  const isRefused = replies.some(({ code, text }) => code >= 400 && NO_PIPELINING.test(text));
  const pipeliningFailed = isSilent || isRefused || isOutOfSync(replies, count);
  // Some servers close the connection or reply with garbage instead. Other failures look the same, so this is only a suspicion.
  const isSuspect =
    !pipeliningFailed && lostAt !== undefined && closingReply === undefined && broken?.cause !== 'ECANCELLED';
  const suspicion = isSuspect ? { pipeliningSuspected: true as const } : {};
  return { mail: replies[0], rcpt, data: replies[count + 1] ?? closingReply, lostAt, pipeliningFailed, ...suspicion };
}

async function sendOneByOne(
  context: TransactionContext,
  commands: { mail: string; rcpt: string[] },
): Promise<Envelope> {
  const { connection, timeouts } = context;
  const sendLine = (line: string): Promise<Answers> =>
    connection.command(line, { count: 1, deadlineMs: timeouts.envelopeMs });
  const envelope: Envelope = { mail: undefined, rcpt: [], data: undefined, lostAt: undefined };
  envelope.mail = (await sendLine(commands.mail)).replies[0];
  if (!envelope.mail) return { ...envelope, lostAt: 'mail' };
  if (!isPositive(envelope.mail)) return envelope;
  for (const command of commands.rcpt) {
    const reply = (await sendLine(command)).replies[0];
    if (!reply) return { ...envelope, lostAt: 'rcpt' };
    envelope.rcpt.push(reply);
    // A server that sent 421 does not reply to other recipients.
    if (reply.code === 421) {
      while (envelope.rcpt.length < commands.rcpt.length) envelope.rcpt.push(reply);
      return envelope;
    }
  }
  if (!envelope.rcpt.some(isPositive)) return envelope;
  envelope.data = (await sendLine('DATA\r\n')).replies[0];
  return envelope.data ? envelope : { ...envelope, lostAt: 'data' };
}

/** Ends a DATA command that was accepted although no recipient can receive the message. */
async function endEmpty(context: TransactionContext, anyAccepted: boolean): Promise<void> {
  if (anyAccepted) {
    context.connection.breakOff('EPROTOCOL', 'the server refused MAIL but accepted RCPT and DATA');
    return;
  }
  await context.connection.command('.\r\n', { count: 1, deadlineMs: context.timeouts.dotMs });
}

/** Closes the session, because its state is unknown. The recipients are neither accepted nor refused. */
function afterLostCommands(
  { connection }: TransactionContext,
  message: SmtpMessage,
  { results }: CheckedMessage,
  { lostAt = 'data' }: Envelope,
): TransactionResult {
  const text = 'the server lost pipelined commands, although it offers PIPELINING';
  connection.breakOff('EPIPELINING', text);
  const rest = { accepted: false, stage: lostAt, cause: 'EPIPELINING', message: text };
  return {
    recipients: settleRest(results, message, rest),
    needsReset: false,
    completed: false,
    pipeliningFailed: true,
  };
}

/** Sends one message. The caller must ensure that the peer has no pending envelope. */
export async function runTransaction(context: TransactionContext, message: SmtpMessage): Promise<TransactionResult> {
  const { connection } = context;
  const checked = checkMessage(context, message);
  const nothing = { needsReset: false, completed: false };
  if (checked.toSend.length === 0) {
    return { recipients: settleRest(checked.results, message, failureResult('mail', connection)), ...nothing };
  }

  const commands = envelopeCommands(context, message, checked.toSend);
  const pipelined = context.mayPipeline && context.extensions.has('PIPELINING');
  const envelope = pipelined ? await sendPipelined(context, commands) : await sendOneByOne(context, commands);
  if (envelope.pipeliningFailed) return afterLostCommands(context, message, checked, envelope);
  const { mail, data } = envelope;
  const results = checked.results;
  const opened = data?.code === 354;

  if (!isPositive(mail)) {
    const anyAccepted = envelope.rcpt.some(isPositive);
    if (opened) await endEmpty(context, anyAccepted);
    const suspected = envelope.pipeliningSuspected && { pipeliningSuspected: true as const };
    return {
      recipients: settleRest(results, message, failureResult('mail', connection, mail)),
      ...nothing,
      ...suspected,
    };
  }
  let anyAccepted = false;
  for (const [position, index] of checked.toSend.entries()) {
    const reply = envelope.rcpt[position];
    if (isPositive(reply)) anyAccepted = true;
    else results[index] = { recipient: message.recipients[index]!, ...failureResult('rcpt', connection, reply) };
  }
  if (!opened || !anyAccepted) {
    if (opened) await endEmpty(context, false);
    const stage = envelope.lostAt ?? 'data';
    return {
      recipients: settleRest(results, message, failureResult(stage, connection, data)),
      needsReset: true,
      completed: false,
      ...(envelope.pipeliningSuspected && { pipeliningSuspected: true }),
    };
  }

  const written = await writeContent(connection, message.content, {
    sizeBytes: message.sizeBytes,
    timeouts: context.timeouts,
    sevenBit: !context.extensions.has('8BITMIME'),
    mayEnd: message.mayEnd,
  });
  const { reply, stage, local } = written;
  if (local) {
    const refusal = { accepted: false, stage, local, message: local.text };
    return { recipients: settleRest(results, message, refusal), ...nothing };
  }
  const accepted = stage === 'dot' && isPositive(reply);
  const rest = accepted && reply ? { accepted, stage, reply } : failureResult(stage, connection, reply);
  return { recipients: settleRest(results, message, rest), needsReset: false, completed: reply !== undefined };
}

const UNSAFE = /[\x00-\x1f\x7f<>]/;
const NON_ASCII = /[^\x00-\x7f]/;

export interface TransactionContext {
  connection: SmtpConnection;
  extensions: ReadonlyMap<string, string>;
  timeouts: SmtpTimeouts;
  host: string;
  /** Whether the certificate was verified for `host`. */
  verified: boolean;
  /** Whether commands may be pipelined if the server supports it. */
  mayPipeline: boolean;
}

export interface CheckedMessage {
  /** The results by index of the recipient; only local refusals are set. */
  results: (RecipientResult | undefined)[];
  /** The indexes of the recipients to send to. */
  toSend: number[];
}

/**
 * Returns the address as sent in commands: the local part is quoted if RFC 5321 §4.1.2 requires it, and the domain is in A-labels unless
 * SMTPUTF8 is used. Undefined if there is no such form.
 */
function wireAddress(address: string, utf8: boolean): string | undefined {
  const at = address.lastIndexOf('@');
  if (at === -1) return address;
  const local = wireLocal(address.slice(0, at));
  const typed = address.slice(at + 1);
  const domain = utf8 || !NON_ASCII.test(typed) ? typed : domainToAscii(typed);
  return domain === undefined ? undefined : `${local}@${domain}`;
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

/** Returns whether content in memory has a dot after a bare CR or LF. */
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
    return refuse(550, '5.7.10', `${host} does not offer TLS, and the message requires it`, 'starttls');
  }
  if (message.requireTls === 'verified' && !context.verified) {
    return refuse(
      550,
      '5.7.10',
      `the certificate of ${host} was not verified, and the message requires it`,
      'starttls',
    );
  }
  if (UNSAFE.test(message.mailFrom)) {
    return refuse(553, '5.1.7', 'the sender has characters that are not allowed in SMTP commands');
  }
  if (message.sizeBytes > announcedSize(extensions)) {
    const text = `the message has ${message.sizeBytes} bytes, but ${host} accepts at most ${announcedSize(extensions)}`;
    return refuse(552, '5.3.4', text);
  }
  if ((message.smtpUtf8 || needsSmtpUtf8(message.mailFrom)) && !extensions.has('SMTPUTF8')) {
    return refuse(553, '5.6.7', `${host} does not support internationalized email (SMTPUTF8)`);
  }
  if (!extensions.has('8BITMIME') && (message.eightBit || hasHighBytes(message))) {
    return refuse(554, '5.6.3', `${host} does not support 8-bit content (8BITMIME)`);
  }
  if (hasBareLineEnds(message)) {
    return refuse(554, '5.6.0', 'the content has a dot after a bare CR or LF, which servers interpret differently');
  }
  return undefined;
}

/** Separates local refusals from recipients to send to. */
function checkMessage(context: TransactionContext, message: SmtpMessage): CheckedMessage {
  const results: (RecipientResult | undefined)[] = new Array(message.recipients.length).fill(undefined);
  const refusal = messageRefusal(context, message);
  const toSend: number[] = [];
  for (const [index, recipient] of message.recipients.entries()) {
    let refused = refusal;
    if (!refused && (UNSAFE.test(recipient) || wireAddress(recipient, false) === undefined || recipient === '')) {
      const text = 'the recipient has characters that are not allowed in SMTP commands';
      refused = { stage: 'rcpt', local: { code: 553, enhanced: '5.1.3', text } };
    }
    if (!refused && needsSmtpUtf8(recipient) && !context.extensions.has('SMTPUTF8')) {
      const text = `${context.host} does not support internationalized addresses (SMTPUTF8)`;
      refused = { stage: 'rcpt', local: { code: 553, enhanced: '5.6.7', text } };
    }
    if (refused) results[index] = { recipient, accepted: false, ...refused, message: refused.local.text };
    else toSend.push(index);
  }
  return { results, toSend };
}

/** Returns the MAIL and RCPT commands with CRLF for the recipients at these indexes. Parameters are added if the peer supports them. */
function envelopeCommands(
  { extensions, verified }: Pick<TransactionContext, 'extensions' | 'verified'>,
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
  // RFC 8689 §4.2.1: REQUIRETLS may be sent only to a verified peer, which must then require it of the next server.
  if (message.requireTls && verified && extensions.has('REQUIRETLS')) mail += ' REQUIRETLS';
  return { mail: `${mail}\r\n`, rcpt: recipients.map((recipient) => `RCPT TO:<${wireAddress(recipient, utf8)}>\r\n`) };
}

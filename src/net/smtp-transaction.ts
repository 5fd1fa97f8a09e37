/**
 * One message over an open session: MAIL, RCPT, DATA, content, dot; everything but the content in one write where the peer
 * pipelines (RFC 2920). What every mix of replies means:
 *
 *   MAIL refused                → all recipients have its reply
 *   some RCPT refused           → those have theirs, the others go on
 *   all refused, DATA answered 354 → a lone dot ends it (RFC 2920 §3.1); the recipients keep their refusals
 *   MAIL refused, yet RCPT and DATA accepted → nobody knows what a dot would deliver: the connection is cut
 *   DATA refused                → the accepted recipients have its reply; RSET before the next message
 *   connection lost             → stage says how far it came; `dot` means the peer may have the mail
 *
 * Nothing is written when sending would put forbidden bytes on the wire: that is a local refusal.
 */
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { Answers, SmtpConnection } from './smtp-connection.ts';
import { writeContent } from './smtp-content.ts';
import { checkMessage, envelopeCommands, type TransactionContext } from './smtp-envelope.ts';
import type { RecipientResult, SmtpMessage, SmtpStage } from './smtp-types.ts';

export interface TransactionResult {
  recipients: RecipientResult[];
  /** The peer still holds an envelope: RSET before the next MAIL. */
  needsReset: boolean;
  /** A final dot was answered. */
  completed: boolean;
}

function positive(reply: SmtpReply | undefined): boolean {
  return reply !== undefined && reply.code >= 200 && reply.code < 300;
}

/** Everybody who has no result yet gets this one: the reply, or what broke the connection. */
function settleRest(
  results: (RecipientResult | undefined)[],
  message: SmtpMessage,
  rest: Omit<RecipientResult, 'recipient'>,
) {
  return message.recipients.map((recipient, index) => results[index] ?? { recipient, ...rest });
}

function outcome(stage: SmtpStage, connection: SmtpConnection, reply?: SmtpReply): Omit<RecipientResult, 'recipient'> {
  if (reply) return { accepted: false, stage, reply };
  const { cause, message } = connection.broken ?? { cause: 'EPROTOCOL', message: 'no reply' };
  return { accepted: false, stage, cause, message };
}

interface Envelope {
  mail: SmtpReply | undefined;
  rcpt: (SmtpReply | undefined)[];
  data: SmtpReply | undefined;
  /** Stage of the command whose reply did not come. */
  lostAt: SmtpStage | undefined;
}

async function sendPipelined(
  context: TransactionContext,
  commands: { mail: string; rcpt: string[] },
): Promise<Envelope> {
  const count = commands.rcpt.length;
  const answers = await context.connection.ask(`${commands.mail}${commands.rcpt.join('')}DATA\r\n`, {
    count: count + 2,
    deadlineMs: context.timeouts.envelopeMs,
  });
  const { replies } = answers;
  const lostAt =
    replies.length === count + 2 ? undefined : replies.length === 0 ? 'mail' : replies.length > count ? 'data' : 'rcpt';
  const farewell = lostAt && replies.at(-1)?.code === 421 ? replies.at(-1) : undefined;
  const rcpt = commands.rcpt.map((_, index) => replies[index + 1] ?? farewell);
  return { mail: replies[0], rcpt, data: replies[count + 1] ?? farewell, lostAt };
}

async function sendOneByOne(
  context: TransactionContext,
  commands: { mail: string; rcpt: string[] },
): Promise<Envelope> {
  const { connection, timeouts } = context;
  const ask = (line: string): Promise<Answers> => connection.ask(line, { count: 1, deadlineMs: timeouts.envelopeMs });
  const envelope: Envelope = { mail: undefined, rcpt: [], data: undefined, lostAt: undefined };
  envelope.mail = (await ask(commands.mail)).replies[0];
  if (!envelope.mail) return { ...envelope, lostAt: 'mail' };
  if (!positive(envelope.mail)) return envelope;
  for (const command of commands.rcpt) {
    const reply = (await ask(command)).replies[0];
    if (!reply) return { ...envelope, lostAt: 'rcpt' };
    envelope.rcpt.push(reply);
    // A server that says goodbye has nothing more to say to the recipients that follow.
    if (reply.code === 421) {
      while (envelope.rcpt.length < commands.rcpt.length) envelope.rcpt.push(reply);
      return envelope;
    }
  }
  if (!envelope.rcpt.some(positive)) return envelope;
  envelope.data = (await ask('DATA\r\n')).replies[0];
  return envelope.data ? envelope : { ...envelope, lostAt: 'data' };
}

/** Ends a DATA that was opened although nobody is to receive anything. */
async function endEmpty(context: TransactionContext, anyAccepted: boolean): Promise<void> {
  if (anyAccepted) {
    context.connection.breakOff('EPROTOCOL', 'the peer refused MAIL and accepted RCPT and DATA');
    return;
  }
  await context.connection.ask('.\r\n', { count: 1, deadlineMs: context.timeouts.dotMs });
}

/** Sends one message; the caller has made sure that the peer holds no envelope. */
export async function runTransaction(context: TransactionContext, message: SmtpMessage): Promise<TransactionResult> {
  const { connection } = context;
  const checked = checkMessage(context, message);
  const nothing = { needsReset: false, completed: false };
  if (checked.toSend.length === 0) {
    return { recipients: settleRest(checked.results, message, outcome('mail', connection)), ...nothing };
  }

  const commands = envelopeCommands(context.extensions, message, checked.toSend);
  const pipelined = context.extensions.has('PIPELINING');
  const envelope = pipelined ? await sendPipelined(context, commands) : await sendOneByOne(context, commands);
  const { mail, data } = envelope;
  const results = checked.results;
  const opened = data?.code === 354;

  if (!positive(mail)) {
    const anyAccepted = envelope.rcpt.some(positive);
    if (opened) await endEmpty(context, anyAccepted);
    return { recipients: settleRest(results, message, outcome('mail', connection, mail)), ...nothing };
  }
  let anyAccepted = false;
  for (const [position, index] of checked.toSend.entries()) {
    const reply = envelope.rcpt[position];
    if (positive(reply)) anyAccepted = true;
    else results[index] = { recipient: message.recipients[index]!, ...outcome('rcpt', connection, reply) };
  }
  if (!opened || !anyAccepted) {
    if (opened) await endEmpty(context, false);
    const stage = envelope.lostAt ?? 'data';
    return {
      recipients: settleRest(results, message, outcome(stage, connection, data)),
      needsReset: true,
      completed: false,
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
  const accepted = stage === 'dot' && positive(reply);
  const rest = accepted && reply ? { accepted, stage, reply } : outcome(stage, connection, reply);
  return { recipients: settleRest(results, message, rest), needsReset: false, completed: reply !== undefined };
}

/**
 * The commands of a session, each with the conditions under which it is obeyed; every refusal has the reply of the contract.
 * Commands that were not offered are never half understood: what would follow them is not run.
 *
 * MAIL, RCPT and DATA: who sends, to whom, and whether the content may come. Whether the credential is still in force and the
 * sender's domain verified is asked again for every mail, so that a revocation is felt in open sessions.
 */
import { type Failure, Unavailable } from '../base/failure.ts';
import { sameAddressKey } from '../mail/address.ts';
import { authenticate } from './authenticate.ts';
import { heloName, MAX_HOLD_SECONDS, type MailCommand, parseCommand, parseMail, parseRecipient } from './command.ts';
import {
  BUSY,
  type Dialogue,
  LOGIN_FAILED,
  type Login,
  NEEDS_LOGIN,
  NEEDS_TLS,
  noteRefused,
  type Pending,
  replyFor,
  TOO_LARGE,
} from './dialogue.ts';
import { beginTransfer } from './mail-transfer.ts';

const NO_MAIL = '503 5.5.1 MAIL first';

/** False when the reply was given: nobody is logged in. */
function isLoggedIn(dialogue: Dialogue): dialogue is Dialogue & { login: Login } {
  if (dialogue.login !== undefined) return true;
  dialogue.clientError(dialogue.isSecure ? NEEDS_LOGIN : NEEDS_TLS);
  return false;
}

/** MAIL FROM. Without a promise where everything asked for was known already. */
function beginMail(dialogue: Dialogue, argument: string): Pending {
  if (!isLoggedIn(dialogue)) return;
  if (dialogue.helo === undefined) return dialogue.clientError('503 5.5.1 EHLO first');
  if (dialogue.envelope !== undefined)
    return dialogue.clientError('503 5.5.1 a mail has begun already; RSET gives it up');
  const parsed = parseMail(argument);
  if (!parsed.ok) {
    return isSyntaxError(parsed.reply) ? dialogue.clientError(parsed.reply) : refuse(dialogue, parsed.reply);
  }
  return orBusy(dialogue, () => checkLogin(dialogue, dialogue.login, parsed.value));
}

function refuse(dialogue: Dialogue, line: string): undefined {
  dialogue.fruitless += 1;
  noteRefused(dialogue, line);
  dialogue.reply(line);
}

/** Of a command that is malformed itself, as opposed to the address in it. */
function isSyntaxError(reply: string): boolean {
  return /^\d{3} 5\.5\.4 /.test(reply);
}

/** Storage that does not answer is back-pressure. */
function orBusy(dialogue: Dialogue, check: () => Pending): Pending {
  return check()?.catch((error: unknown) => {
    if (!(error instanceof Unavailable)) throw error;
    dialogue.log.warn({ err: error }, 'a sender could not be checked');
    refuse(dialogue, BUSY);
  });
}

function checkLogin(dialogue: Dialogue, login: Login, mail: MailCommand): Pending {
  const { services } = dialogue;
  const allowed = services.authenticator.stillAllowed(login.username);
  const proceed = (result: Awaited<typeof allowed>): Pending => {
    if (!result.ok) {
      refuse(dialogue, LOGIN_FAILED);
      dialogue.login = undefined;
      return;
    }
    dialogue.login = { username: login.username, caller: result.value };
    return checkSender(dialogue, dialogue.login, mail);
  };
  return allowed instanceof Promise ? allowed.then(proceed) : proceed(allowed);
}

function checkSender(dialogue: Dialogue, login: Login, mail: MailCommand): Pending {
  const { services } = dialogue;
  const { from } = mail;
  if (from === undefined) {
    return refuse(dialogue, '550 5.7.1 the null sender is not for submission; give the address of the sender');
  }
  const { maxMessageBytes } = services.limits;
  if ((mail.sizeBytes ?? 0) > maxMessageBytes) return refuse(dialogue, TOO_LARGE(maxMessageBytes));
  const proceed = (found: Failure | undefined, clockOffsetMs: number): undefined => {
    if (found !== undefined) return refuse(dialogue, replyFor(found));
    // By the clock of the credential's mode, as `sendAt` is.
    const latestMs = services.clock.now() + clockOffsetMs + MAX_HOLD_SECONDS * 1000;
    if (mail.hold !== undefined && 'untilMs' in mail.hold && mail.hold.untilMs > latestMs)
      return dialogue.clientError('501 5.5.4 HOLDUNTIL is at most 30 days ahead');
    if (services.closedToMail() !== undefined) return refuse(dialogue, BUSY);
    if (!services.takeRate(login.caller.keyId)) {
      return refuse(dialogue, '451 4.7.0 too many mails from this credential; try again later');
    }
    const { smtpUtf8, hold } = mail;
    dialogue.envelope = { from, smtpUtf8, hold, recipients: new Map(), refused: 0, clockOffsetMs };
    dialogue.reply('250 2.1.0 OK');
  };
  const { caller } = login;
  return Promise.all([services.submit.senderFailure(caller, from), services.submit.clockOffsetMs(caller)]).then(
    ([found, clockOffsetMs]) => proceed(found, clockOffsetMs),
  );
}

/** RCPT TO. A recipient that is given twice is taken once. */
function addRecipient(dialogue: Dialogue, argument: string): undefined {
  if (!isLoggedIn(dialogue)) return;
  const { envelope } = dialogue;
  // No error: a client that pipelines sends RCPT before it knows what became of its MAIL.
  if (envelope === undefined) return refuse(dialogue, NO_MAIL);
  const { maxRecipients, maxRefusedRecipients } = dialogue.services.limits;
  if (envelope.refused >= maxRefusedRecipients) return dialogue.hangUp('421 4.7.0 too many refused recipients');
  const parsed = parseRecipient(argument, envelope.smtpUtf8);
  if (!parsed.ok) {
    if (isSyntaxError(parsed.reply)) return dialogue.clientError(parsed.reply);
    envelope.refused += 1;
    noteRefused(dialogue, parsed.reply);
    return dialogue.reply(parsed.reply);
  }
  const key = sameAddressKey(parsed.value);
  if (envelope.recipients.size >= maxRecipients && !envelope.recipients.has(key)) {
    envelope.refused += 1;
    const line = `452 4.5.3 a mail may have ${maxRecipients} recipients; send it to the others separately`;
    noteRefused(dialogue, line);
    return dialogue.reply(line);
  }
  if (envelope.recipients.has(key)) dialogue.fruitless += 1;
  else envelope.recipients.set(key, parsed.value);
  dialogue.reply('250 2.1.5 OK');
}

/** DATA: from here on the connection belongs to the content until its dot. */
function beginData(dialogue: Dialogue): undefined {
  if (!isLoggedIn(dialogue)) return;
  const { services, login, envelope, helo, address } = dialogue;
  if (envelope === undefined) return refuse(dialogue, NO_MAIL);
  if (envelope.recipients.size === 0) return refuse(dialogue, '554 5.5.1 no valid recipients');
  // What closed since MAIL; the envelope stays, for a client that tries again.
  if (services.closedToMail() !== undefined) return refuse(dialogue, BUSY);
  dialogue.transfer = beginTransfer({ services, login, envelope, helo: helo ?? '', address });
  dialogue.envelope = undefined;
  dialogue.reply('354 end the mail with <CRLF>.<CRLF>');
}

type Handler = (dialogue: Dialogue, argument: string) => Pending;

/** Offered behind the name; AUTH and STARTTLS are added where they apply. */
const EXTENSIONS = ['PIPELINING', '8BITMIME', 'SMTPUTF8'];

function greet(dialogue: Dialogue, argument: string, isExtended: boolean): undefined {
  const name = heloName(argument);
  if (name === undefined) return dialogue.clientError('501 5.5.4 give the name of your host');
  dialogue.helo = name;
  dialogue.isExtended = isExtended;
  dialogue.envelope = undefined;
  dialogue.fruitless += 1;
  const { hostname, limits, clock } = dialogue.services;
  if (!isExtended) return dialogue.reply(`250 ${hostname}`);
  // RFC 4865 §4: the longest interval and the latest time.
  const latest = new Date(clock.now() + MAX_HOLD_SECONDS * 1000).toISOString().replace(/\.\d+/, '');
  const release = `FUTURERELEASE ${MAX_HOLD_SECONDS} ${latest}`;
  const offered = [...EXTENSIONS, `SIZE ${limits.maxMessageBytes}`, release, 'ENHANCEDSTATUSCODES'];
  if (!dialogue.isSecure) offered.push('STARTTLS');
  else if (dialogue.login === undefined) offered.push('AUTH PLAIN LOGIN');
  const lines = [hostname, ...offered];
  for (const [index, line] of lines.entries()) dialogue.reply(`250${index === lines.length - 1 ? ' ' : '-'}${line}`);
}

function startTls(dialogue: Dialogue, argument: string): undefined {
  if (argument !== '') return dialogue.clientError('501 5.5.4 STARTTLS takes no parameters');
  if (dialogue.isSecure) return dialogue.clientError('503 5.5.1 this is TLS already');
  dialogue.startTls();
}

/** Commands that do nothing; they count, so that a session cannot be filled with them for ever. */
const idle =
  (line: string): Handler =>
  (dialogue) => {
    dialogue.fruitless += 1;
    dialogue.reply(line);
  };

function withoutArgument(handler: Handler): Handler {
  return (dialogue, argument) => {
    if (argument !== '') return dialogue.clientError('501 5.5.4 this command takes no parameters');
    return handler(dialogue, argument);
  };
}

/** A protocol of its own speaks here, most likely a browser that was made to (cross-protocol request forgery). */
const otherProtocol: Handler = (dialogue) => dialogue.hangUp('421 4.7.0 this is SMTP');

const HANDLERS: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ['EHLO', (dialogue, argument) => greet(dialogue, argument, true)],
  ['HELO', (dialogue, argument) => greet(dialogue, argument, false)],
  ['STARTTLS', startTls],
  ['AUTH', authenticate],
  ['MAIL', beginMail],
  ['RCPT', addRecipient],
  ['DATA', withoutArgument(beginData)],
  [
    'RSET',
    withoutArgument((dialogue) => {
      dialogue.envelope = undefined;
      dialogue.fruitless += 1;
      dialogue.reply('250 2.0.0 OK');
    }),
  ],
  ['NOOP', idle('250 2.0.0 OK')],
  ['HELP', idle('214 2.0.0 EHLO STARTTLS AUTH MAIL RCPT DATA RSET NOOP QUIT; see RFC 5321')],
  ['VRFY', idle('252 2.5.0 cannot verify the address; send it mail to find out')],
  ['QUIT', withoutArgument((dialogue) => dialogue.hangUp('221 2.0.0 goodbye'))],
  ['EXPN', (dialogue) => dialogue.clientError('502 5.5.1 EXPN is not offered')],
  ['TURN', (dialogue) => dialogue.clientError('502 5.5.1 TURN is not offered')],
  ['ETRN', (dialogue) => dialogue.clientError('502 5.5.1 ETRN is not offered')],
  // Its octets follow at once, and would run as commands in a session that stayed.
  ['BDAT', (dialogue) => dialogue.hangUp('502 5.5.1 BDAT is not offered; send the mail with DATA')],
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE', 'PRI'].map(
    (verb): [string, Handler] => [verb, otherProtocol],
  ),
]);

/** Runs one command line; a promise when something has to be waited for. */
export function runCommand(dialogue: Dialogue, line: string): Pending {
  const { verb, argument } = parseCommand(line);
  const handler = HANDLERS.get(verb);
  if (handler === undefined) return dialogue.clientError('500 5.5.2 the command is not known');
  dialogue.verb = verb;
  const { limits } = dialogue.services;
  if (dialogue.fruitless >= limits.maxFruitless) {
    return dialogue.hangUp('421 4.7.0 too many commands without a mail');
  }
  return handler(dialogue, argument);
}

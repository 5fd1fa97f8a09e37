/**
 * The commands of a submission port (RFC 6409): sender, recipients, and whether content is accepted. For every mail it checks again whether
 * the credential is valid and the sender's domain verified, so that a revocation applies to open sessions.
 */
import type { Failure } from '../base/failure.ts';
import { sameAddressKey } from '../mail/address.ts';
import type { Submit } from '../send/send.ts';
import { authenticate, type Logins } from './authenticate.ts';
import { MAX_HOLD_SECONDS, type MailCommand, parseMail, parseRecipient } from './command.ts';
import { withoutArgument } from './commands.ts';
import {
  BUSY,
  type Dialogue,
  isSyntaxError,
  LOGIN_FAILED,
  type Login,
  NEEDS_LOGIN,
  NEEDS_TLS,
  NO_MAIL,
  noteRefused,
  orBusy,
  type Pending,
  type Profile,
  type RefusedCommand,
  refuse,
  replyFor,
  TOO_LARGE,
} from './dialogue.ts';
import { beginTransfer } from './mail-transfer.ts';

export interface Submission extends Logins {
  submit: Submit;
  /** Called for a 4xx or 5xx reply to a logged-in client; `verb` is the command, if it is a known one. */
  onRefused?(refused: RefusedCommand): void;
  /** Takes one mail from this credential's share of the rate limit; returns false if none is left. */
  takeRate(keyId: string): boolean;
}

/** Returns false after replying that a login is required. */
function isLoggedIn(dialogue: Dialogue): dialogue is Dialogue & { login: Login } {
  if (dialogue.login !== undefined) return true;
  dialogue.clientError(dialogue.isSecure ? NEEDS_LOGIN : NEEDS_TLS);
  return false;
}

/** MAIL FROM. Synchronous if everything needed is cached. */
function beginMail(submission: Submission, dialogue: Dialogue, argument: string): Pending {
  if (!isLoggedIn(dialogue)) return;
  if (dialogue.helo === undefined) return dialogue.clientError('503 5.5.1 send EHLO first');
  if (dialogue.envelope !== undefined)
    return dialogue.clientError('503 5.5.1 a message is already in progress; send RSET to discard it');
  const parsed = parseMail(argument);
  if (!parsed.ok) {
    return isSyntaxError(parsed.reply) ? dialogue.clientError(parsed.reply) : refuse(dialogue, parsed.reply);
  }
  return orBusy(dialogue, () => checkLogin(submission, dialogue, parsed.value));
}

function checkLogin(submission: Submission, dialogue: Dialogue & { login: Login }, mail: MailCommand): Pending {
  const { login } = dialogue;
  const session = { username: login.username, address: dialogue.address };
  const allowed = submission.authenticator.stillAllowed(session, login.caller);
  const proceed = (result: Awaited<typeof allowed>): Pending => {
    if (!result.ok) {
      refuse(dialogue, LOGIN_FAILED);
      (dialogue as Dialogue).login = undefined;
      return;
    }
    dialogue.login = { username: login.username, caller: result.value };
    submission.onUsed?.(result.value, dialogue.address);
    return checkSender(submission, dialogue, mail);
  };
  return allowed instanceof Promise ? allowed.then(proceed) : proceed(allowed);
}

function checkSender(submission: Submission, dialogue: Dialogue & { login: Login }, mail: MailCommand): Pending {
  const { services, login } = dialogue;
  const { from } = mail;
  if (from === undefined) {
    return refuse(dialogue, '550 5.7.1 the null sender is not allowed for submission; use the address of the sender');
  }
  const { maxMessageBytes } = services.limits;
  if ((mail.sizeBytes ?? 0) > maxMessageBytes) return refuse(dialogue, TOO_LARGE(maxMessageBytes));
  const proceed = (found: Failure | undefined, clockOffsetMs: number): undefined => {
    if (found !== undefined) return refuse(dialogue, replyFor(found));
    // By the clock of the credential's mode, as `sendAt` is.
    const latestMs = services.clock.now() + clockOffsetMs + MAX_HOLD_SECONDS * 1000;
    if (mail.hold !== undefined && 'untilMs' in mail.hold && mail.hold.untilMs > latestMs)
      return dialogue.clientError('501 5.5.4 HOLDUNTIL must be within the next 30 days');
    if (services.closedToMail() !== undefined) return refuse(dialogue, BUSY);
    if (!submission.takeRate(login.caller.keyId)) {
      return refuse(dialogue, '451 4.7.0 rate limit of this credential reached; try again later');
    }
    const { smtpUtf8, hold, envid, ret } = mail;
    dialogue.envelope = {
      kind: 'submission',
      from,
      smtpUtf8,
      hold,
      envid,
      ret,
      recipients: new Map(),
      reports: new Map(),
      refused: 0,
      clockOffsetMs,
    };
    dialogue.reply('250 2.1.0 OK');
  };
  const { caller } = login;
  return Promise.all([submission.submit.senderFailure(caller, from), submission.submit.clockOffsetMs(caller)]).then(
    ([found, clockOffsetMs]) => proceed(found, clockOffsetMs),
  );
}

/** RCPT TO. Duplicate recipients are accepted once. */
function addRecipient(dialogue: Dialogue, argument: string): undefined {
  if (!isLoggedIn(dialogue)) return;
  const { envelope } = dialogue;
  // Not an error: a client that pipelines sends RCPT before it gets the reply to MAIL.
  if (envelope?.kind !== 'submission') return refuse(dialogue, NO_MAIL);
  const { maxRecipients, maxRefusedRecipients } = dialogue.services.limits;
  if (envelope.refused >= maxRefusedRecipients) return dialogue.hangUp('421 4.7.0 too many rejected recipients');
  const parsed = parseRecipient(argument, envelope.smtpUtf8);
  if (!parsed.ok) {
    if (isSyntaxError(parsed.reply)) return dialogue.clientError(parsed.reply);
    envelope.refused += 1;
    noteRefused(dialogue, parsed.reply);
    return dialogue.reply(parsed.reply);
  }
  const { address, reports } = parsed.value;
  const key = sameAddressKey(address);
  if (envelope.recipients.size >= maxRecipients && !envelope.recipients.has(key)) {
    envelope.refused += 1;
    const line = `452 4.5.3 too many recipients: at most ${maxRecipients} per message; send to the others separately`;
    noteRefused(dialogue, line);
    return dialogue.reply(line);
  }
  if (envelope.recipients.has(key)) dialogue.fruitless += 1;
  else {
    envelope.recipients.set(key, address);
    if (reports.notify !== undefined || reports.originalRecipient !== undefined) envelope.reports.set(key, reports);
  }
  dialogue.reply('250 2.1.5 OK');
}

/** DATA: from here on the connection belongs to the content until its dot. */
function beginData(submission: Submission, dialogue: Dialogue): undefined {
  if (!isLoggedIn(dialogue)) return;
  const { services, login, envelope, helo, address } = dialogue;
  if (envelope?.kind !== 'submission') return refuse(dialogue, NO_MAIL);
  if (envelope.recipients.size === 0) return refuse(dialogue, '554 5.5.1 no valid recipients');
  // Intake may have closed since MAIL; the envelope is kept, for a client that retries.
  if (services.closedToMail() !== undefined) return refuse(dialogue, BUSY);
  dialogue.transfer = beginTransfer({
    services,
    submit: submission.submit,
    login,
    envelope,
    helo: helo ?? '',
    address,
  });
  dialogue.envelope = undefined;
  dialogue.reply('354 end the mail with <CRLF>.<CRLF>');
}

export function createSubmissionProfile(submission: Submission): Profile {
  const { guard, onRefused } = submission;
  return {
    verbs: new Map([
      ['AUTH', authenticate(submission)],
      ['MAIL', (dialogue, argument) => beginMail(submission, dialogue, argument)],
      ['RCPT', addRecipient],
      ['DATA', withoutArgument((dialogue) => beginData(submission, dialogue))],
    ]),
    offered: ({ services }) => {
      // RFC 4865 §4: the longest interval and the latest time.
      const latest = new Date(services.clock.now() + MAX_HOLD_SECONDS * 1000).toISOString().replace(/\.\d+/, '');
      return ['DSN', `FUTURERELEASE ${MAX_HOLD_SECONDS} ${latest}`];
    },
    knows: (countedAddress) => guard.knows(countedAddress),
    ...(onRefused && { onRefused }),
  };
}

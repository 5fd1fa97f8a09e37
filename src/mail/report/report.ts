/**
 * Classifies mail that bounces or reports return: a bounce or a delay (RFC 3464 and its dialects), a complaint (RFC 5965), or neither. It
 * only parses: the caller decides whether a report is authentic and which message it is about.
 */

import { inTimeSlice } from '../../base/time-slice.ts';
import { automaticByHeader, automaticByText, automaticByWeakSigns } from './automatic.ts';
import { type Notice, readNotice, senderOf } from './bounce-phrases.ts';
import { readDeliveryStatus } from './delivery-status.ts';
import { readComplaint } from './feedback-report.ts';
import { answeredMail, attachedOriginal, type QuotedHeader, quotedHeader, reportedMail } from './original-mail.ts';
import { addressesIn, isVague } from './quoted-reply.ts';
import { quotedTokens } from './quoted-tokens.ts';
import { type Fields, type ReceivedMail, readReceived, subjectOf } from './received.ts';
import type { Report, ReportedMail, ReportedRecipient } from './report-types.ts';
import { withStages } from './smtp-stage.ts';
import { namesRecipientFirst, type ReportText, readNamelessBounce, readTextBounce } from './text-bounce.ts';
import { readableTexts } from './texts.ts';

export type { Report, ReportedMail, ReportedRecipient } from './report-types.ts';
export { stageIn } from './smtp-stage.ts';

const MAX_LINES = 5000;
const MAX_MENTIONED = 200;

const none = (why: Extract<Report, { kind: 'none' }>['why']): Report => ({ kind: 'none', why });

const failedRecipients = ({ header }: ReceivedMail): string[] =>
  addressesIn(header.all('x-failed-recipients').join(', '), 100);

/** Returns the fields of a delivery report part. X-Failed-Recipients has the only recipient as the sender gave it. */
function statedRecipients(mail: ReceivedMail): ReportedRecipient[] {
  const part = mail.parts.find((one) => /^message\/(?:global-)?delivery-status$/.test(one.type));
  const stated = part === undefined ? [] : readDeliveryStatus(part.latin1());
  const failed = failedRecipients(mail);
  if (stated.length !== 1 || failed.length !== 1) return stated;
  return stated.map((one) => ({ ...one, originalRecipient: one.originalRecipient ?? failed[0]! }));
}

/** Like `statedRecipients`, for programs that put the fields into the text. */
function recipientsInText(text: string): ReportedRecipient[] {
  const at = text.search(/^final-recipient[ \t]*:/im);
  return at < 0 ? [] : readDeliveryStatus(Buffer.from(text.slice(at).replaceAll('\n', '\r\n')).toString('latin1'));
}

const isComplete = (one: ReportedRecipient): boolean => one.finalRecipient !== null && one.diagnostic !== null;

/** Completes a recipient with what the text adds to its fields. */
function completed(recipient: ReportedRecipient, more: ReportedRecipient | undefined): ReportedRecipient {
  if (more === undefined) return recipient;
  const isVagueNow = recipient.status === null || isVague(recipient.status);
  const isFitting =
    more.status !== null && !isVague(more.status) && more.status[0] === (recipient.status ?? more.status)[0];
  return {
    ...recipient,
    finalRecipient: recipient.finalRecipient ?? more.finalRecipient,
    status: isVagueNow && recipient.diagnostic === null && isFitting ? more.status : (recipient.status ?? more.status),
    smtpCode: recipient.smtpCode ?? (recipient.diagnostic === null ? more.smtpCode : null),
    diagnostic: recipient.diagnostic ?? more.diagnostic,
  };
}

/** Completes each recipient with the text about it, or about the only one. */
function completedAll(stated: readonly ReportedRecipient[], human: ReportText): ReportedRecipient[] {
  if (stated.every(isComplete)) return [...stated];
  const listed = readTextBounce(human);
  const byAddress = new Map(listed.toReversed().map((one) => [one.finalRecipient?.toLowerCase(), one]));
  const only = listed.length === 1 ? listed[0] : undefined;
  return stated.map((one) => completed(one, byAddress.get(one.finalRecipient?.toLowerCase()) ?? only));
}

interface Returned {
  mail: ReceivedMail;
  text: string;
  original: Fields | undefined;
  isAttached: boolean;
  human: ReportText;
}

/** Matches the line that introduces the quoted mail. */
const FOLLOWS =
  /^[\s*=#>.-]*$|(?:original|unsent|returned|bounced|undelivered) (?:message|mail|e-mail)|copy of (?:the|your) |(?:message )?headers? (?:follow|of)|below this line/i;

/** Returns the lines before the quoted mail. */
function readableLines(lines: readonly string[], quoted: QuotedHeader | undefined): readonly string[] {
  let end = quoted === undefined || quoted.firstLine < 2 ? lines.length : quoted.firstLine;
  for (let most = 6; most > 0 && end > 3 && FOLLOWS.test(lines[end - 1]!); most -= 1) end -= 1;
  return lines.slice(0, end);
}

/** Splits the text into the readable part and the mail that is quoted after it. */
function returnedMail(mail: ReceivedMail, attached: Fields | undefined): Returned {
  const texts = readableTexts(mail);
  const text = texts.join('\n');
  const lines = text.split('\n', MAX_LINES);
  const headerIn = (of: string[]): QuotedHeader | undefined => (attached === undefined ? quotedHeader(of) : undefined);
  const quoted = headerIn(lines);
  const original = attached ?? quoted?.fields;
  const addressesOf = (...names: string[]): Set<string> =>
    new Set(
      addressesIn(
        names
          .flatMap((name) => mail.header.all(name))
          .join(', ')
          .toLowerCase(),
        20,
      ),
    );
  const shown = texts.length > 1 && texts[0]!.includes('@') ? texts[0]!.split('\n', MAX_LINES) : lines;
  return {
    mail,
    text,
    original,
    isAttached: attached !== undefined,
    human: {
      lines: readableLines(shown, shown === lines ? quoted : headerIn(shown)),
      subject: subjectOf(mail),
      failed: failedRecipients(mail),
      own: addressesOf('to', 'from'),
      deliveredTo: addressesOf('delivered-to', 'x-original-to', 'envelope-to'),
      to: addressesIn(original?.all('to').join(', ') ?? '', 100),
    },
  };
}

/** Automatic replies name the mail that they reply to (RFC 3834 §3.1.5). */
const isAnswer = (mail: ReceivedMail): boolean => answeredMail(mail) !== null;

/**
 * Returns whether the text is a bounce. A no-reply sender has to state a failure in its text, and to include the failed message or the
 * reply of a server; nothing may show that it is automatic mail of another kind. Its subject proves nothing: acknowledgements repeat the
 * original one. A mailer daemon needs less evidence, but people configure automatic replies from such addresses too.
 */
function isTextBounce({ mail, text, isAttached, human }: Returned, notice: Notice): boolean {
  if (human.failed.length > 0) return true;
  const sender = senderOf(mail.header.first('from'));
  if (sender === 'other') return false;
  const { failed, delivered, delayed, reply, isNoticeSubject, hasWeakWords } = notice;
  if (delivered) return false;
  if (sender === 'no-reply') {
    const isProven = failed.byText
      ? isAttached || reply === 'full'
      : reply === 'full' && hasWeakWords && !isAnswer(mail);
    return isProven && automaticByWeakSigns(mail, text) === undefined;
  }
  const automatic = reply === undefined ? automaticByText(text) : undefined;
  if (automatic === 'challenge' || (automatic !== undefined && !failed.byText)) return false;
  if (failed.byText || failed.bySubject || delayed || reply !== undefined || isNoticeSubject) return true;
  return hasWeakWords && namesRecipientFirst(human.lines);
}

/** Reads a bounce that is written for people. */
function readByText(returned: Returned): ReportedRecipient[] {
  const { text, original, human } = returned;
  const notice = readNotice(human.subject, human.lines.join('\n'));
  if (!isTextBounce(returned, notice)) return [];
  let recipients = readTextBounce(human);
  if (recipients.length === 0) recipients = readTextBounce({ ...human, lines: text.split('\n', MAX_LINES) });
  if (recipients.length > 0) return recipients;
  const others = human.to.filter((one) => !human.own.has(one.toLowerCase()));
  const ofOriginal = original === undefined ? [] : readTextBounce({ ...human, failed: others.slice(0, 1) });
  if (ofOriginal.length > 0) return ofOriginal;
  const isBounce = notice.failed.byText || notice.delayed || (notice.reply !== undefined && !isAnswer(returned.mail));
  return isBounce ? [readNamelessBounce(human)] : [];
}

/** Forwarded mail and replies are from people, whatever they quote. */
const FROM_PEOPLE =
  /^\s*(?:fwd?|wg|tr|rv|enc|i|vs|vb|pd|doorst|továbbítás|转发|轉寄|re|aw|sv|odp|ynt|回复|答复|回覆)\s?(?:\[\d+\])?\s?[:：]/iu;

/** Returns whether a person wrote the mail and quotes a report. */
function isSentByPerson(mail: ReceivedMail): boolean {
  return FROM_PEOPLE.test(subjectOf(mail)) && senderOf(mail.header.first('from')) === 'other';
}

/** A read receipt (RFC 8098) is about reading and states nothing about the delivery. */
function isReadReceipt({ reportType, parts }: ReceivedMail): boolean {
  return (
    reportType === 'disposition-notification' ||
    (reportType === '' && parts.some(({ type }) => /^message\/(?:global-)?disposition-notification$/.test(type)))
  );
}

interface Stated {
  attached: Fields | undefined;
  complaint: ReturnType<typeof readComplaint>;
  recipients: ReportedRecipient[];
}

/** Reads the machine-readable parts of a mail. */
function readStated(mail: ReceivedMail): Stated {
  const attached = attachedOriginal(mail);
  return { attached, complaint: readComplaint(mail, attached), recipients: statedRecipients(mail) };
}

/** Reads the readable text of a mail, and classifies its author. */
function readText(mail: ReceivedMail, returned: Returned, about: ReportedMail): Report {
  const automatic = automaticByHeader(mail);
  if (automatic && returned.human.failed.length === 0) return none(automatic);
  const recipients = readByText(returned);
  const mentioned = addressesIn(
    `${returned.human.subject}\n${returned.human.lines.join('\n')}`.toLowerCase(),
    MAX_MENTIONED,
  );
  if (recipients.length > 0) {
    const staged = withStages(recipients, returned.human.lines);
    return { kind: 'bounce', recipients: staged, mail: about, isForMachines: false, mentioned };
  }
  return none(automatic ?? automaticByWeakSigns(mail, returned.text) ?? 'not-a-report');
}

/**
 * Reads a returned mail; what exceeds the limits is not read. Yields to other work between its steps, each of which is limited. Never
 * throws.
 */
export async function readReport(raw: Uint8Array): Promise<Report> {
  const mail = await inTimeSlice(() => readReceived(raw));
  if (mail === undefined) return none('unreadable');
  const { attached, complaint, recipients: stated } = await inTimeSlice(() => readStated(mail));
  if (complaint === 'none' || (stated.length > 0 && isSentByPerson(mail))) return none('not-a-report');
  if (complaint === undefined && stated.length === 0 && isReadReceipt(mail)) return none('auto-reply');
  // If the fields are complete, the readable text adds only the stage.
  const isReportComplete = complaint !== undefined || (stated.length > 0 && stated.every(isComplete));
  const isText = !isReportComplete || !attached?.first('message-id');
  const returned = isText ? await inTimeSlice(() => returnedMail(mail, attached)) : undefined;
  const original = returned?.original ?? attached;
  const quoted = reportedMail(mail, original, returned?.text ?? '');
  // Replies of any kind name the mail that they reply to, so for readable reports that proves nothing.
  const isForMachines = stated.length > 0;
  const about = complaint || isForMachines ? { ...quoted, messageId: quoted.messageId ?? answeredMail(mail) } : quoted;
  if (complaint) return { kind: 'complaint', ...complaint, tokens: quotedTokens(mail, original), mail: about };
  if (returned === undefined) {
    const recipients = await inTimeSlice(() =>
      withStages(stated, readableTexts(mail).join('\n').split('\n', MAX_LINES)),
    );
    return { kind: 'bounce', recipients, mail: about, isForMachines, mentioned: [] };
  }
  // Fields in the text are trusted if a program sent the mail.
  const isOfProgram = senderOf(mail.header.first('from')) !== 'other' || returned.human.failed.length > 0;
  const inFields = isForMachines ? stated : isOfProgram ? recipientsInText(returned.text) : [];
  if (inFields.length === 0) return inTimeSlice(() => readText(mail, returned, about));
  const recipients = await inTimeSlice(() => withStages(completedAll(inFields, returned.human), returned.human.lines));
  return { kind: 'bounce', recipients, mail: about, isForMachines, mentioned: [] };
}

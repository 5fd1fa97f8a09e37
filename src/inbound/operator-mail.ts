/**
 * Mail to postmaster@ and abuse@ that is no report on a message of ours: of people, providers and blocklists. It is kept for operators to
 * read, and forwarded to their address where one is set. Forwarding sends a new mail from this service, with the original attached and the
 * author in Reply-To: SPF and DMARC pass, and an answer goes to the author.
 *
 * Nothing goes round in a loop: a mail that was forwarded, or quotes one that was, is not forwarded again, and neither are automatic replies.
 * At most MOST_IN_AN_HOUR mails are forwarded in an hour. The rest is listed all the same.
 */
import type { Log } from '../base/log.ts';
import { type Letter, readLetter } from '../mail/report/letter.ts';
import type { Database } from '../storage/database.ts';
import type { Found, InboundMail, RecordedFindings } from './inbound-mail.ts';
import { type Forwarding, recordOperatorMailOperation } from './operator-mail-store.ts';

export const FORWARDED_IN_AN_HOUR = 100;

/** A mail on its way to the operators' address. */
export interface ForwardedMail {
  /** By which it is sent once. */
  key: string;
  to: string;
  replyTo: string | null;
  subject: string;
  text: string;
  original: Buffer;
}

export interface OperatorMailOptions {
  /** POSTRIDER_POSTMASTER; undefined where none is set. */
  postmaster: string | undefined;
  /** Resolves when the mail is accepted; false where this service has no name to write from. */
  forward(mail: ForwardedMail): Promise<boolean>;
  /** Whether one more may be forwarded in this hour, which is counted. */
  mayForward(): boolean;
}

/** Reads a mail for operators. */
export const readOperatorMail = async (mail: InboundMail): Promise<Letter> => readLetter(await mail.content());

/** What an operator reads in front of the attached original. */
function textOf(
  { id, recipient, envelopeFrom, client, receivedAtMs, use, sizeBytes }: InboundMail,
  letter: Letter,
): string {
  const receivedBytes = 'receivedBytes' in use ? use.receivedBytes : undefined;
  const lines = [
    `Postrider received this mail for ${recipient}. The original is attached; a reply goes to its author.`,
    '',
    `From: ${letter.from}`,
    `Envelope sender: ${envelopeFrom === '' ? '<>' : envelopeFrom}`,
    `Subject: ${letter.subject}`,
    `Received: ${new Date(receivedAtMs).toISOString()} from ${client.helo} [${client.address}], ${receivedBytes ?? sizeBytes} bytes, ${id}`,
  ];
  if (receivedBytes !== undefined) lines.push('The mail was too large to be kept whole: its files are missing.');
  return `${[...lines, '', letter.text].join('\n')}\n`;
}

async function forwarded(options: OperatorMailOptions, mail: InboundMail, letter: Letter): Promise<Forwarding> {
  const { postmaster, forward, mayForward } = options;
  if (postmaster === undefined) return 'not-set';
  if (letter.hasForwarded) return 'loop';
  if (letter.isAutomaticReply) return 'automatic-reply';
  if (!mayForward()) return 'over-limit';
  const isSent = await forward({
    key: `operator mail ${mail.id}`,
    to: postmaster,
    replyTo: letter.replyTo ?? (mail.envelopeFrom || null),
    subject: `Fwd: ${letter.subject || '(no subject)'}`,
    text: textOf(mail, letter),
    original: await mail.content(),
  });
  return isSent ? 'forwarded' : 'no-sender';
}

/** Forwards the mails and keeps them for operators. A mail that is recorded again is not forwarded again. */
export async function recordOperatorMail(
  { database, log, options }: { database: Database; log: Log; options: OperatorMailOptions },
  found: readonly Found<Letter>[],
): Promise<RecordedFindings> {
  const recorded = [];
  for (const { lease, mail, finding: letter } of found) {
    const forwarding = await forwarded(options, mail, letter);
    const { from, subject, text } = letter;
    recorded.push({ lease, summary: { from, subject, text, forwarding } });
    log.info({ inboundId: mail.id, recipient: mail.recipient, forwarding }, 'mail for operators received');
  }
  return database.execute(recordOperatorMailOperation, recorded);
}

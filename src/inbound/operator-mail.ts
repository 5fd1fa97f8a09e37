/**
 * Mail to postmaster@ and abuse@ that is not a report about a message of this service: from people, providers, and blocklists. It is stored
 * for operators and forwarded to their address, if one is configured. Forwarding sends a new message from this service with the original
 * attached and its author in Reply-To, so SPF and DMARC pass and a reply goes to the author.
 *
 * Forwarding cannot loop: forwarded messages, messages that quote one, and automatic replies are not forwarded. Up to MOST_IN_AN_HOUR
 * messages are forwarded per hour; the others are only listed.
 */
import type { Log } from '../base/log.ts';
import { type Letter, readLetter } from '../mail/report/letter.ts';
import type { Database } from '../storage/database.ts';
import type { Found, InboundMail, RecordedFindings } from './inbound-mail.ts';
import { type Forwarding, recordOperatorMailOperation } from './operator-mail-store.ts';

export const FORWARDED_IN_AN_HOUR = 100;

/** A message to forward to the operators' address. */
export interface ForwardedMail {
  /** Prevents forwarding it twice. */
  key: string;
  to: string;
  replyTo: string | null;
  subject: string;
  text: string;
  original: Buffer;
}

export interface OperatorMailOptions {
  /** POSTRIDER_POSTMASTER; undefined if not set. */
  postmaster: string | undefined;
  /** Resolves when the message is accepted; false if this service has no domain to send from. */
  forward(mail: ForwardedMail): Promise<boolean>;
  /** Returns whether one more message may be forwarded in this hour, and counts it. */
  mayForward(): boolean;
}

/** Reads a message for operators. */
export const readOperatorMail = async (mail: InboundMail): Promise<Letter> => readLetter(await mail.content());

/** The text above the attached original. */
function textOf(
  { id, recipient, envelopeFrom, client, receivedAtMs, use, sizeBytes }: InboundMail,
  letter: Letter,
): string {
  const receivedBytes = 'receivedBytes' in use ? use.receivedBytes : undefined;
  const lines = [
    `Postrider received this message for ${recipient}. The original is attached. Replies go to its author.`,
    '',
    `From: ${letter.from}`,
    `Envelope sender: ${envelopeFrom === '' ? '<>' : envelopeFrom}`,
    `Subject: ${letter.subject}`,
    `Received: ${new Date(receivedAtMs).toISOString()} from ${client.helo} [${client.address}], ${receivedBytes ?? sizeBytes} bytes, ${id}`,
  ];
  if (receivedBytes !== undefined)
    lines.push('The message was too large to store completely: its attachments are missing.');
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

/** Forwards the messages and stores them for operators. A message that is recorded again is not forwarded again. */
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

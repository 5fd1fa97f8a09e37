/**
 * The last look at a message before it goes to one peer: where the peer lacks 8BITMIME or SMTPUTF8 (RFC 6152, RFC 6531) and the
 * message needs it, the message is re-encoded and signed again, because a signature covers exactly the bytes that leave.
 * What cannot be re-encoded without damage is refused here, permanently, as if the peer had: 554 5.6.3 or 553 5.6.7.
 *
 * An email is re-encoded once for all its recipients whose servers lack the same. Streamed content is our own and 7-bit; UTF-8 in
 * its addresses has no other form, which the transaction itself refuses.
 */
import { isAscii } from 'node:buffer';
import { type SevenBitNeeds, toSevenBit } from '../mail/mime/seven-bit.ts';
import type { LocalRefusal, SendResult, SmtpMessage, SmtpSession } from '../net/smtp-client.ts';
import type { Prepared } from './attempt.ts';

type Sendable = Prepared & { ok: true };

type Reencoded = { ok: true; content: Buffer; signatures: string } | { ok: false; enhanced: string; text: string };

export interface Sending {
  message: SmtpMessage;
  prepared: Sendable;
  /** Our Received field, which stands above the signatures. */
  received: string;
}

/** By the email, so that it goes with it. */
const reencoded = new WeakMap<Sendable, Map<boolean, Promise<Reencoded>>>();

async function reencode(
  { prepared, content }: { prepared: Sendable; content: Buffer },
  needs: SevenBitNeeds,
): Promise<Reencoded> {
  const result = toSevenBit(content, needs);
  if (!result.ok) return { ok: false, enhanced: result.code, text: result.text };
  return { ok: true, content: result.content, signatures: await prepared.signAgain(result.content) };
}

function reencodedOnce(email: { prepared: Sendable; content: Buffer }, needs: SevenBitNeeds): Promise<Reencoded> {
  const { prepared } = email;
  const known = reencoded.get(prepared) ?? new Map<boolean, Promise<Reencoded>>();
  reencoded.set(prepared, known);
  const made = known.get(needs.eightBit) ?? reencode(email, needs);
  known.set(needs.eightBit, made);
  return made;
}

function refusalOf(session: SmtpSession, refused: Reencoded & { ok: false }): LocalRefusal {
  const { enhanced, text } = refused;
  const eightBit = enhanced === '5.6.3';
  const lacks = eightBit ? '8-bit content (8BITMIME)' : 'internationalised mail (SMTPUTF8)';
  return {
    code: eightBit ? 554 : 553,
    enhanced,
    text: `${session.remoteHost} does not take ${lacks}, and the message cannot be re-encoded: ${text}`,
  };
}

/** Sends the message over the session in the form that its peer takes. Never rejects because of the peer. */
export async function sendFitting(session: SmtpSession, sending: Sending): Promise<SendResult> {
  const { message, prepared, received } = sending;
  const { content } = prepared;
  const lacksEightBit = !session.extensions.has('8BITMIME');
  const lacksUtf8 = !session.extensions.has('SMTPUTF8');
  if (!Buffer.isBuffer(content) || !(lacksEightBit || lacksUtf8)) return session.send(message);
  const needs = {
    eightBit: lacksEightBit && (message.eightBit || !isAscii(content)),
    utf8Headers: lacksUtf8 && message.smtpUtf8,
  };
  if (!needs.eightBit && !needs.utf8Headers) return session.send(message);
  const fitting = await reencodedOnce({ prepared, content }, needs);
  if (!fitting.ok) {
    const local = refusalOf(session, fitting);
    const refused = { accepted: false, stage: 'mail' as const, local, message: local.text };
    return { recipients: message.recipients.map((recipient) => ({ recipient, ...refused })), dialogue: [] };
  }
  const head = Buffer.from(`${received}${fitting.signatures}`, 'latin1');
  return session.send({
    ...message,
    content: [head, fitting.content],
    sizeBytes: head.length + fitting.content.length,
    smtpUtf8: false,
    eightBit: !isAscii(fitting.content),
  });
}

/** Interprets the replies of a session for the session itself and its peer's address, separately from the recipients. Pure. */
import type { RecipientResult } from '../../net/smtp-client.ts';
import type { Outcome } from './outcome.ts';
import { isAboutRecipientCount, normalizeReply } from './reply-match.ts';

/** The peer closed the session, or replied 421, before it read the envelope. */
export function isSilentClose(result: RecipientResult): boolean {
  const isEarly = result.stage === 'mail' || result.stage === 'reset';
  return isEarly && !result.local && (result.reply === undefined || result.reply.code === 421);
}

/** A server that accepts one message per connection: RFC 5321 §4.3.2 has no code for it; servers send 503 and others. */
const NO_REUSE =
  /sender (?:is )?already (?:given|specified|set)|nested mail|bad sequence|out of (?:sequence|order)|(?:one|too many|limit of|maximum|max\.?) (?:number of )?(?:messages?|mails?|transactions?)\b.{0,30}(?:connection|session)/i;

/**
 * The server refused the message only because its session had carried one before. RSET is sent only between messages and presents none, so
 * this includes every reply to it that refuses, except 421, which closes the session.
 */
export function isReuseRefused({ stage, reply, local }: RecipientResult): boolean {
  if (local || reply === undefined || reply.code < 400 || (stage !== 'mail' && stage !== 'reset')) return false;
  if (stage === 'reset') return reply.code !== 421;
  return reply.code === 503 || NO_REUSE.test(reply.text);
}

/** Phrases with which a server demands encryption, at MAIL or later (RFC 3207 §4 has 530; others send 550, 554 or 523). */
const ASKS_FOR_TLS =
  /STARTTLS|\b(?:TLS|SSL|encryption|encrypted|secure connection)\b.{0,30}\b(?:required|needed|mandatory|first)\b|\b(?:require|requires|need|needs|must use|must be)\b.{0,30}\b(?:TLS|SSL|encryption|encrypted)\b/i;

/** The server accepts the message only over TLS; used for sessions without TLS. */
export function requiresStartTls({ stage, reply, local }: RecipientResult): boolean {
  if (local || reply === undefined || reply.code < 400 || stage === 'dot') return false;
  return ASKS_FOR_TLS.test(reply.text);
}

/** The transaction had more recipients than the server accepts in one: it accepted some, and accepts others in the next transaction. */
export function isBeyondRecipientLimit(result: RecipientResult, all: readonly RecipientResult[]): boolean {
  const { stage, reply, recipient } = result;
  if (stage !== 'rcpt' || reply === undefined || reply.code < 400) return false;
  return all.some((other) => other.accepted) && isAboutRecipientCount(normalizeReply(reply, recipient));
}

/** The host closed the connection, stalled, replied 421 or sent nonsense: this is not about a recipient. */
export function isHostFailure({ reply, local, cause, accepted }: RecipientResult): boolean {
  if (accepted || local || cause === 'ECANCELLED' || cause === 'ECONTENT') return false;
  return reply === undefined || reply.code === 421;
}

/**
 * Whether the recipient continues at the next host in the same attempt (RFC 5321 §5.1): the failure is temporary, the final dot was not
 * sent, and the reply is not about a sending rate, which the hosts of a domain count together. Greylisting does continue: the next host may
 * already know Postrider.
 */
export function goesToNextHost(outcome: Outcome, { stage, local }: RecipientResult): boolean {
  if (outcome.kind !== 'temporary' || stage === 'dot' || local) return false;
  return outcome.category !== 'rate-limited' && outcome.category !== 'internal';
}

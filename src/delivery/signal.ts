/**
 * What a transmission says of its destination, whatever becomes of its recipients: that it answers, that it serves so many
 * sessions and no more, that it asks for time, that it fell silent, or that nobody can be reached.
 */
import type { Connections, Opened } from './connections.ts';
import type { Signal } from './destinations.ts';
import type { Outcome } from './outcome.ts';
import { mayReturn, type Pass, type RecipientOutcome } from './pass.ts';
import { pauseAskedFor, speaksOfConnections } from './pause.ts';

/** How often a message is put back for want of a session: more, because a peer may refuse one for hours. */
const MAX_RETURNS_AT_DOOR = 20;

/** Of a session that could not be opened, while `observed` others of ours are open. */
export function signalOfDoor(
  { evidence, facts, forNeed }: Opened & { ok: false },
  outcome: Outcome,
  observed: number,
): Signal {
  if (evidence.cause === 'ECANCELLED') return { kind: 'nothing' };
  const door = evidence.stage === 'connect' || evidence.stage === 'banner' || evidence.stage === 'ehlo';
  // With sessions of ours inside, a refusal at the door is about their number.
  if (outcome.kind === 'temporary' && door && observed > 0) return { kind: 'connection-limit', observed };
  const request = pauseAskedFor(evidence, outcome);
  if (request) return { kind: 'wait', request, refusal: { outcome, host: facts.host } };
  // What one mail asks of its connection says nothing of the mail behind it.
  if (forNeed) return { kind: 'nothing' };
  return outcome.kind === 'temporary' || evidence.stage === 'dns' ? { kind: 'unreachable' } : { kind: 'nothing' };
}

/** Of a pass over a session, with the outcome of each of its recipients. */
export function signalOfPass({ pooled, sent }: Pass, results: readonly RecipientOutcome[]): Signal {
  if (sent.recipients.some((one) => one.accepted)) return { kind: 'answered', took: true };
  let signal: Signal = { kind: 'nothing' };
  for (const [index, result] of results.entries()) {
    if (result.kind !== 'classified') continue;
    const recipient = sent.recipients[index]!;
    const refusal = { outcome: result.outcome, host: pooled.session.remoteHost };
    const request = pauseAskedFor(recipient, result.outcome);
    if (request) return { kind: 'wait', request, refusal };
    if (recipient.reply) signal = { kind: 'answered', took: false };
    else if (recipient.cause === 'ETIMEDOUT' && recipient.stage !== 'dot' && signal.kind === 'nothing') {
      signal = { kind: 'stalled', refusal };
    }
  }
  return signal;
}

/** Of two passes of one attempt, to exchangers of one destination: that one of them took somebody counts most, then the later word. */
export function later(before: Signal, now: Signal): Signal {
  const took = before.kind === 'answered' && before.took;
  return took || now.kind === 'nothing' ? before : now;
}

/** Puts those back that were refused because of the number of our sessions. */
export function putBackRefused(signal: Signal, results: readonly RecipientOutcome[]): RecipientOutcome[] {
  return results.map((one): RecipientOutcome => {
    const again =
      signal.kind === 'connection-limit' && one.kind === 'classified' && mayReturn(one.held, MAX_RETURNS_AT_DOOR);
    return again ? { held: one.held, kind: 'again' } : one;
  });
}

/** A refusal in a session that is about the number of our sessions, while others are open: it ends, and they go on. */
export function asConnectionLimit(signal: Signal, { pooled }: Pass, connections: Connections): Signal {
  if (signal.kind !== 'wait' || !speaksOfConnections(signal.refusal.outcome.reply ?? '')) return signal;
  pooled.session.destroy();
  const observed = connections.count(pooled.destination);
  return observed === 0 ? signal : { kind: 'connection-limit', observed };
}

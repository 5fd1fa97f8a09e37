/**
 * Delivery of sandbox messages: a simulated server instead of a network. No name is looked up and no socket is opened. The result is
 * recorded exactly as for a live attempt, so an integration gets the same events in the same order.
 *
 *   bounced → Bounce     delayed → DeliveryDelay, at the next attempt Delivery     complained → Delivery, Complaint
 *   an SMTP reply → classified as a server's answer to RCPT, at every attempt the same
 */

import { newId } from '../../base/ids.ts';
import { parseReply, type SmtpReply } from '../../mail/smtp-reply.ts';
import type { DeliveryJob } from '../../messages/messages.ts';
import { type SimulatedOutcome, simulatedOutcome } from '../../sandbox/sandbox.ts';
import { classify, replyText } from '../outcome/outcome.ts';
import { settlementOf } from '../record/results.ts';
import type { Settlement } from '../record/settle.ts';

export const HOST = 'mx.sandbox.invalid';
const TLS = 'TLSv1.3';
const ACCEPTED = replyOf('250 2.0.0 OK: simulated delivery');
const UNKNOWN_USER = replyOf('550 5.1.1 simulated: no such user here');
const NOT_NOW = replyOf('451 4.2.1 simulated: mailbox temporarily unavailable, try again later');

function replyOf(text: string): SmtpReply {
  const reply = parseReply(text);
  if (!reply) throw new Error(`not an SMTP reply: ${text}`);
  return reply;
}

function dialogueOf(
  job: DeliveryJob,
  reply: SmtpReply,
  accepted: boolean,
): { atMs: number; direction: 'C' | 'S'; text: string }[] {
  const lines: ['C' | 'S', string][] = [
    ['S', `220 ${HOST} ESMTP simulated`],
    ['C', 'EHLO (simulated)'],
    ['S', `250 ${HOST}`],
    ['C', `MAIL FROM:<${job.envelopeFrom}>`],
    ['S', '250 2.1.0 OK'],
    ['C', `RCPT TO:<${job.recipient}>`],
  ];
  if (accepted) {
    lines.push(['S', '250 2.1.5 OK'], ['C', 'DATA'], ['S', '354 go ahead'], ['C', `<${job.sizeBytes} bytes>`]);
  }
  lines.push(['S', replyText(reply)]);
  return lines.map(([direction, text]) => ({ atMs: 0, direction, text }));
}

/** Returns the simulated server's reply; if the text starts with no reply, its default one. */
export function simulatedReply(simulated: SimulatedOutcome): SmtpReply {
  if (simulated.kind === 'reply') return simulated.reply;
  if (simulated.word === 'bounced') return UNKNOWN_USER;
  return simulated.word === 'delayed' ? NOT_NOW : ACCEPTED;
}

/** Returns what the message simulates now by its own address: a delay only once. */
function ownOutcome(job: DeliveryJob): SimulatedOutcome {
  const simulated = simulatedOutcome(job.recipient, job.options.sandboxOutcome);
  const isOver = simulated.kind === 'word' && simulated.word === 'delayed' && job.attempts > 0;
  return isOver ? { kind: 'word', word: 'delivered' } : simulated;
}

export const COMPLAINT = {
  complaint: {
    feedbackType: 'abuse',
    remoteHost: HOST,
    owner: 'recipient',
    advice: 'The recipient reported this message as spam; stop sending to this address.',
    suppressed: false,
  },
};

/** What the inbox shows for a state. */
export const SHOWN = {
  delivered: 'Delivered',
  delayed: 'Delayed',
  bounced: 'Bounced',
  suppressed: 'Suppressed',
  complained: 'Complained',
} as const;

export interface Simulation {
  /** By the account's clock. */
  nowMs: number;
  random: number;
  /** Instead of the outcome that the message itself selects. */
  simulated?: SimulatedOutcome;
}

export function simulateSandbox(
  job: DeliveryJob,
  { nowMs, random, simulated = ownOutcome(job) }: Simulation,
): Settlement {
  const reply = simulatedReply(simulated);
  const complains = simulated.kind === 'word' && simulated.word === 'complained';
  const accepted = reply.code < 300;
  const outcome = classify({ accepted, stage: accepted ? 'dot' : 'rcpt', reply, relay: false });
  const facts = {
    startedAtMs: nowMs,
    durationMs: 0,
    host: HOST,
    address: null,
    tls: TLS,

    dialogue: dialogueOf(job, reply, accepted),
  };
  const settlement = settlementOf({ job, outcome, facts, nowMs, random });
  settlement.sandboxOutcome = SHOWN[complains ? 'complained' : settlement.to];
  if (complains) {
    const event = { id: newId('evt', nowMs), type: 'Complaint', detail: COMPLAINT } as const;
    settlement.followedBy = { to: 'complained', event };
  }
  return settlement;
}

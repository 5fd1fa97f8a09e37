/**
 * The last hop of sandbox mail: a simulated server instead of a network. No name is looked up and no socket opened; what
 * comes out is recorded exactly as a live attempt is, so that an integration sees the same events in the same order.
 *
 *   bounced → Bounce     delayed → DeliveryDelay, at the next attempt Delivery     complained → Delivery, Complaint
 *   an SMTP reply → judged as a server's answer to RCPT, at every attempt the same
 */
import { newId } from '../base/ids.ts';
import { parseReply, type SmtpReply } from '../mail/smtp-reply.ts';
import type { DeliveryJob, Settlement } from '../messages/messages.ts';
import { sandboxPlay } from '../sandbox/sandbox.ts';
import { judge, replyText } from './outcome.ts';
import { settlementOf } from './settlement.ts';

const HOST = 'mx.sandbox.invalid';
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
  const said: ['C' | 'S', string][] = [
    ['S', `220 ${HOST} ESMTP simulated`],
    ['C', 'EHLO (simulated)'],
    ['S', `250 ${HOST}`],
    ['C', `MAIL FROM:<${job.envelopeFrom}>`],
    ['S', '250 2.1.0 OK'],
    ['C', `RCPT TO:<${job.recipient}>`],
  ];
  if (accepted) {
    said.push(['S', '250 2.1.5 OK'], ['C', 'DATA'], ['S', '354 go ahead'], ['C', `<${job.sizeBytes} bytes>`]);
  }
  said.push(['S', replyText(reply)]);
  return said.map(([direction, text]) => ({ atMs: 0, direction, text }));
}

function playedReply(job: DeliveryJob): { reply: SmtpReply; complains: boolean } {
  const play = sandboxPlay(job.recipient, job.options.sandboxOutcome);
  if (play.kind === 'reply') return { reply: play.reply, complains: false };
  if (play.word === 'bounced') return { reply: UNKNOWN_USER, complains: false };
  if (play.word === 'delayed' && job.attempts === 0) return { reply: NOT_NOW, complains: false };
  return { reply: ACCEPTED, complains: play.word === 'complained' };
}

/** What comes of a sandbox message now. */
export function playSandbox(job: DeliveryJob, options: { nowMs: number; random: number }): Settlement {
  const { nowMs, random } = options;
  const { reply, complains } = playedReply(job);
  const accepted = reply.code < 300;
  const outcome = judge({ accepted, stage: accepted ? 'dot' : 'rcpt', reply, relay: false });
  const facts = {
    startedAtMs: nowMs,
    durationMs: 0,
    host: HOST,
    address: null,
    tls: TLS,
    dialogue: dialogueOf(job, reply, accepted),
  };
  const settlement = settlementOf({ job, outcome, facts, nowMs, random });
  const shown = {
    delivered: complains ? 'Complained' : 'Delivered',
    delayed: 'Delayed',
    bounced: 'Bounced',
    suppressed: 'Suppressed',
  } as const;
  settlement.sandboxOutcome = shown[settlement.to];
  if (complains) {
    const complaint = {
      feedbackType: 'abuse',
      remoteHost: HOST,
      owner: 'recipient',
      advice: 'The recipient marked this mail as spam; stop sending to this address.',
      suppressed: false,
    };
    settlement.followedBy = {
      to: 'complained',
      event: { id: newId('evt', nowMs), type: 'Complaint', detail: { complaint } },
    };
  }
  return settlement;
}

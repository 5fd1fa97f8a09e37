/**
 * One pass of an email over one session: what became of each recipient, whether it goes on to the next exchanger in the same attempt,
 * what is remembered of the host, and what the pass says of its destination: that it answers, that it serves so many sessions and
 * no more, that it asks for time, that it fell silent, or that nobody can be reached.
 */
import type { RecipientResult, SendResult } from '../net/smtp-client.ts';
import type { Held, Onward } from './attempt.ts';
import type { NotOpened } from './candidates.ts';
import type { Connections } from './connections.ts';
import type { Signal } from './destinations.ts';
import type { HostMemory } from './hosts.ts';
import { classify, type Outcome } from './outcome.ts';
import { pauseAskedFor, speaksOfConnections, waitHintMs } from './pause.ts';
import { type PooledSession, peerOf } from './pooled-session.ts';
import { isAboutRecipientCount, readingOf } from './reply-rules.ts';
import { type Candidate, isRelay } from './route.ts';
import type { AttemptFacts } from './settle.ts';

const MAX_RETURNS = 3;
/** Of recipients beyond those that one transaction may have: each time at least one other was delivered, of 50 at most. */
const MAX_RETURNS_OF_REST = 50;

export type Classified = { held: Held; kind: 'classified'; outcome: Outcome; facts: AttemptFacts };

export type RecipientOutcome =
  | Classified
  | { held: Held; kind: 'again' }
  /** Its attempt goes on at this destination. */
  | { held: Held; kind: 'onward'; to: string; onward: Onward };

/**
 * Whether what an exchanger said before counts for more: this one was not reached, or refuses for good what the other put off and may still
 * take. One that could not be spoken to leaves the word to this one.
 */
function isOutweighed({ held, outcome: { kind, smtpCode } }: Classified, before: Pick<Outcome, 'smtpCode'>): boolean {
  const { hosts, pause } = held.onward!;
  if (kind === 'permanent') return hosts > 0 || pause !== undefined;
  return kind === 'temporary' && smtpCode === null && before.smtpCode !== null;
}

/** The outcome of an attempt with what it met at other destinations before: which of them counts, and all that was said. */
export function conclude(now: Classified): Classified {
  const { before, pause } = now.held.onward ?? {};
  if (pause && isOutweighed(now, pause.outcome)) {
    return { ...now, outcome: pause.outcome, facts: { ...now.facts, host: pause.host } };
  }
  if (!before) return now;
  const { startedAtMs } = before.facts;
  const durationMs = now.facts.startedAtMs + now.facts.durationMs - startedAtMs;
  const dialogue = [...before.facts.dialogue, ...now.facts.dialogue];
  const { outcome, facts } = isOutweighed(now, before.outcome) ? before : now;
  return { ...now, outcome, facts: { ...facts, startedAtMs, durationMs, dialogue } };
}

export type Clocked = Pick<AttemptFacts, 'startedAtMs' | 'durationMs'>;

/** Whether a recipient may be put back once more without an attempt. */
export function mayReturn(held: Held, most: number = MAX_RETURNS): boolean {
  return held.returns < most;
}

function isSilentClose(result: RecipientResult): boolean {
  const early = result.stage === 'mail' || result.stage === 'reset';
  return early && !result.local && (result.reply === undefined || result.reply.code === 421);
}

/** A server that takes no further message on a connection that has carried one: RFC 5321 §4.3.2 has no code for it, servers say 503 and others. */
const NO_REUSE =
  /sender (?:is )?already (?:given|specified|set)|nested mail|bad sequence|out of (?:sequence|order)|(?:one|too many|limit of|maximum|max\.?) (?:number of )?(?:messages?|mails?|transactions?)\b.{0,30}(?:connection|session)/i;

/** That the server refused the message only because its session had carried one before. */
function isReuseRefused({ stage, reply, local }: RecipientResult): boolean {
  if (local || reply === undefined || reply.code < 400 || (stage !== 'mail' && stage !== 'reset')) return false;
  return reply.code === 503 || NO_REUSE.test(reply.text);
}

/** Words with which a server asks for encryption, at MAIL or later (RFC 3207 §4 has 530; others say 550, 554 or 523). */
const ASKS_FOR_TLS =
  /STARTTLS|\b(?:TLS|SSL|encryption|encrypted|secure connection)\b.{0,30}\b(?:required|needed|mandatory|first)\b|\b(?:require|requires|need|needs|must use|must be)\b.{0,30}\b(?:TLS|SSL|encryption|encrypted)\b/i;

/** That the server takes the message over TLS alone, on a session that has none because STARTTLS failed or was not offered. */
function isTlsMissing({ stage, reply, local }: RecipientResult, { session }: PooledSession): boolean {
  if (session.tls !== undefined || local || reply === undefined || reply.code < 400 || stage === 'dot') return false;
  return ASKS_FOR_TLS.test(reply.text);
}

/** The transaction had more recipients than the server accepts at once; it took some of them, and takes others in the next one. */
function isTooMany({ stage, reply, recipient }: RecipientResult, sent: SendResult): boolean {
  if (stage !== 'rcpt' || reply === undefined || reply.code < 400) return false;
  return sent.recipients.some((other) => other.accepted) && isAboutRecipientCount(readingOf(reply, recipient));
}

/** What one session made of the recipients that were sent over it. */
export interface Pass {
  pooled: PooledSession;
  sent: SendResult;
  reused: boolean;
  /** What was said on earlier sessions of the same attempt. */
  earlier: AttemptFacts['dialogue'];
  clocked: Clocked;
}

/** All that was said in this attempt so far. */
export function dialogueOf({ pooled, sent, reused, earlier }: Pass): AttemptFacts['dialogue'] {
  if (earlier.length === 0 && reused) return sent.dialogue;
  return [...earlier, ...(reused ? [] : pooled.session.opening), ...sent.dialogue];
}

/** The outcome of each recipient, in their order. */
export function classifyPass(
  { group, destination }: { group: readonly Held[]; destination: string },
  pass: Pass,
): RecipientOutcome[] {
  const { sent, reused } = pass;
  const { session } = pass.pooled;
  const facts: AttemptFacts = {
    ...pass.clocked,
    host: session.remoteHost,
    address: session.remoteAddress,
    sourceAddress: session.sourceAddress,
    tls: session.tls ?? null,
    tlsFallback: session.tlsFallback ?? null,
    tlsPolicy: pass.pooled.tlsPolicy,
    tlsCipher: session.tlsCipher ?? null,
    tlsPeerName: session.tlsPeerName ?? null,
    dialogue: dialogueOf(pass),
  };
  const recipientCount = sent.recipients.filter(({ stage }) => stage === 'dot').length;
  return group.map((held, index): RecipientOutcome => {
    const result = sent.recipients[index]!;
    const cancelled = result.cause === 'ECANCELLED' && result.stage !== 'dot';
    const isRest = isTooMany(result, sent) && mayReturn(held, MAX_RETURNS_OF_REST);
    const isSessionOver = reused && (isSilentClose(result) || isReuseRefused(result)) && mayReturn(held);
    if (cancelled || isRest || isSessionOver) return { held, kind: 'again' };
    const stage = isTlsMissing(result, pass.pooled) ? 'starttls' : result.stage;
    const outcome = classify({ ...result, stage, relay: isRelay(destination), recipientCount });
    return { held, kind: 'classified', outcome, facts };
  });
}

/**
 * Whether the recipient goes on to the next exchanger at once (RFC 5321 §5.1, contract 6 "Restraint"): the fault is temporary, the
 * final dot was not written, and the reply does not speak of the rate at which we send, which exchangers of one domain count together.
 * Greylisting does go on: the next exchanger may know us, and if not it begins to.
 */
export function goesOn(one: RecipientOutcome, result: RecipientResult): boolean {
  if (one.kind !== 'classified' || one.outcome.kind !== 'temporary') return false;
  const { category } = one.outcome;
  return result.stage !== 'dot' && !result.local && category !== 'rate-limited' && category !== 'our-side';
}

/** The later word counts, unless an exchanger refuses for good where a better one may still take the mail. */
export function weigh(before: RecipientOutcome | undefined, now: RecipientOutcome): RecipientOutcome {
  if (before?.kind !== 'classified' || now.kind !== 'classified' || now.outcome.kind !== 'permanent') return now;
  return { ...before, facts: { ...before.facts, dialogue: now.facts.dialogue } };
}

/** What is to be remembered of an address after a pass; ends the session where it may carry no further message. */
export function learn(hosts: HostMemory, { pooled, sent, reused }: Pass, group: readonly Held[]): void {
  const peer = peerOf(pooled);
  if (reused && sent.recipients.every(isReuseRefused)) {
    hosts.reuseFailed(peer);
    pooled.mostMessages = pooled.used;
    return;
  }
  if (sent.pipeliningFailed) hosts.pipeliningFailed(peer, { isSure: true });
  if (reused && sent.recipients.every(isSilentClose)) return;
  if (sent.pipeliningSuspected) hosts.pipeliningFailed(peer, { isSure: false });
  if (sent.recipients.some((one) => one.accepted)) hosts.worked(peer);
  else if (!sent.pipeliningFailed && sent.recipients.some((one) => isHostFault(one))) {
    hosts.failed(peer.host, [peer.address], pooled.candidate.allAddresses);
  }
  for (const [index, { stage, accepted, reply }] of sent.recipients.entries()) {
    if (stage !== 'dot' || accepted || (reply && reply.code >= 500)) continue;
    hosts.dotFailed(group[index]!.job.messageId, peer);
  }
}

/**
 * What an attempt tries after a pass, for these outcomes: the other addresses of the host, unless all that failed is up to the recipients'
 * mailboxes, then the hosts after it. If nothing is left and commands were lost, the same address is tried without PIPELINING.
 */
export function restAfter({ pooled, sent }: Pass, going: readonly RecipientOutcome[]): Candidate[] {
  const { host, address } = peerOf(pooled);
  const isOfMailbox = (one: RecipientOutcome): boolean =>
    one.kind === 'classified' && one.outcome.owner === 'recipient' && one.outcome.category !== 'greylisted';
  const rest = going.every(isOfMailbox) ? pooled.rest.filter((one) => one.host !== host) : pooled.rest;
  return sent.pipeliningFailed && rest.length === 0 ? [{ ...pooled.candidate, addresses: [address] }] : rest;
}

/** It hung up, stalled, said 421 or talked nonsense: that is no word about a recipient. */
function isHostFault({ reply, local, cause, accepted }: RecipientResult): boolean {
  if (accepted || local || cause === 'ECANCELLED' || cause === 'ECONTENT') return false;
  return reply === undefined || reply.code === 421;
}

/** How often a message is put back for want of a session: more, because a peer may refuse one for hours. */
const MAX_RETURNS_AT_DOOR = 20;

/** Of a session that could not be opened, while `observed` others of ours are open. */
export function signalOfDoor({ evidence, facts, forNeed }: NotOpened, outcome: Outcome, observed: number): Signal {
  if (evidence.cause === 'ECANCELLED') return { kind: 'nothing' };
  const door = evidence.stage === 'connect' || evidence.stage === 'banner' || evidence.stage === 'ehlo';
  // With sessions of ours inside, a refusal at the door is about their number, unless it says that it is about us, or when to come again.
  const said = evidence.reply?.text ?? '';
  const asksForTime = waitHintMs(said) !== undefined && !speaksOfConnections(said);
  const isAboutUs = outcome.category === 'blocked' || asksForTime;
  const isAboutNumber = outcome.kind === 'temporary' && door && observed > 0 && !isAboutUs;
  if (isAboutNumber) return { kind: 'connection-limit', observed };
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

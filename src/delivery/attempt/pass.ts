/**
 * One pass of an email over one session: the result of each recipient, whether it continues at the next host in the same attempt, what is
 * remembered about the host, and which hosts come next. The meaning of replies is decided in outcome/.
 */
import type { RecipientResult, SendResult } from '../../net/smtp-client.ts';
import { classify, type Outcome } from '../outcome/outcome.ts';
import {
  goesToNextHost,
  isBeyondRecipientLimit,
  isHostFailure,
  isReuseRefused,
  isSilentClose,
  requiresStartTls,
} from '../outcome/session-replies.ts';
import { type Signal, signalOfSession } from '../outcome/signal.ts';
import type { DeliveryItem, Hop } from '../queue/delivery-item.ts';
import type { AttemptFacts, Settlement } from '../record/settle.ts';
import type { HostMemory } from '../routing/hosts.ts';
import { type Candidate, domainOf, isRelay } from '../routing/route.ts';
import { type PooledSession, peerOf } from './pooled-session.ts';

const MAX_RETURNS = 3;
/** Times a recipient over the transaction limit is put back: each time at least one other of up to 50 was delivered. */
const MAX_RETURNS_OF_REST = 50;
/** Times a message without a session is put back: more, because a peer may refuse sessions for hours. */
const MAX_RETURNS_WITHOUT_SESSION = 20;

/** A recipient whose attempt has ended with this outcome, from which apply.ts builds the settlement. */
export interface ClassifiedResult {
  item: DeliveryItem;
  kind: 'classified';
  outcome: Outcome;
  facts: AttemptFacts;
}

/** The result of an attempt for one recipient, and what is to happen next. */
export type AttemptResult =
  | ClassifiedResult
  /** The settlement is already known: a simulated, suppressed, expired, or timed-out message. */
  | { item: DeliveryItem; kind: 'settlement'; settlement: Settlement }
  /** The message returns to the queue; no attempt is counted unless an earlier host replied. */
  | { item: DeliveryItem; kind: 'put back' }
  /** The message returns to the database: its account may not send now. */
  | { item: DeliveryItem; kind: 'released' }
  /** The attempt continues at another destination. */
  | { item: DeliveryItem; kind: 'continues'; hop: Hop };

/** The result of one attempt with a group of messages. Values only: apply.ts acts on them. */
export interface AttemptReport {
  startedMs: number;
  /** Duration, by a monotonic clock. */
  elapsedMs: number;
  results: AttemptResult[];
  signal: Signal;
  /** The session to continue with, if it is still usable. */
  pooled: PooledSession | undefined;
}

/**
 * Whether the result at an earlier host outweighs this one: this host was not reached, or permanently refused a message that the other one
 * deferred and may still accept. If the earlier host could not be reached, the later result counts.
 */
function isOutweighed(
  { item, outcome: { kind, smtpCode } }: ClassifiedResult,
  before: Pick<Outcome, 'smtpCode'>,
): boolean {
  const { hosts, pause } = item.hop.detour!;
  if (kind === 'permanent') return hosts > 0 || pause !== undefined;
  return kind === 'temporary' && smtpCode === null && before.smtpCode !== null;
}

/** Combines the outcome of an attempt with its results at earlier destinations: the outcome that counts, and the complete dialogue. */
export function conclude(now: ClassifiedResult): ClassifiedResult {
  const { before, pause } = now.item.hop.detour ?? {};
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

export type AttemptTiming = Pick<AttemptFacts, 'startedAtMs' | 'durationMs'>;

/** Whether a recipient may be put back once more without an attempt. */
export function mayReturn(item: DeliveryItem, most: number = MAX_RETURNS): boolean {
  return item.returns < most;
}

/** One transaction over a session, and the results of its recipients. */
export interface Pass {
  pooled: PooledSession;
  mailFrom: string;
  sent: SendResult;
  reused: boolean;
  /** The dialogue of earlier sessions of the same attempt. */
  earlier: AttemptFacts['dialogue'];
  clocked: AttemptTiming;
}

/** The whole dialogue of the attempt so far. */
export function dialogueOf({ pooled, sent, reused, earlier }: Pass): AttemptFacts['dialogue'] {
  if (earlier.length === 0 && reused) return sent.dialogue;
  return [...earlier, ...(reused ? [] : pooled.session.opening), ...sent.dialogue];
}

function factsOf(pass: Pass): AttemptFacts {
  const { session, tlsPolicy } = pass.pooled;
  return {
    ...pass.clocked,
    host: session.remoteHost,
    address: session.remoteAddress,
    sourceAddress: session.sourceAddress,
    tls: session.tls ?? null,
    tlsFallback: session.tlsFallback,
    tlsPolicy,
    tlsCipher: session.tlsCipher,
    tlsKeyExchange: session.tlsKeyExchange,
    tlsPeerName: session.tlsPeerName,
    dialogue: dialogueOf(pass),
  };
}

/** The result of each recipient, in their order. */
export function classifyPass(
  { group, destination }: { group: readonly DeliveryItem[]; destination: string },
  pass: Pass,
): AttemptResult[] {
  const { sent, reused, pooled, mailFrom } = pass;
  const facts = factsOf(pass);
  const recipientCount = sent.recipients.filter(({ stage }) => stage === 'dot').length;
  return group.map((item, index): AttemptResult => {
    const result = sent.recipients[index]!;
    const isCanceled = result.cause === 'ECANCELLED' && result.stage !== 'dot';
    const isRest = isBeyondRecipientLimit(result, sent.recipients) && mayReturn(item, MAX_RETURNS_OF_REST);
    const isSessionOver = reused && (isSilentClose(result) || isReuseRefused(result)) && mayReturn(item);
    if (isCanceled || isRest || isSessionOver) return { item, kind: 'put back' };
    const isTlsMissing = pooled.session.tls === undefined && requiresStartTls(result);
    const stage = isTlsMissing ? 'starttls' : result.stage;
    const outcome = classify({ ...result, stage, relay: isRelay(destination), recipientCount, sender: mailFrom });
    return { item, kind: 'classified', outcome, facts };
  });
}

/** Whether the recipient continues at the next host immediately. */
export function continuesAtNextHost(one: AttemptResult, result: RecipientResult): boolean {
  return one.kind === 'classified' && goesToNextHost(one.outcome, result);
}

/**
 * Returns the result that counts: the later one, with two exceptions. The earlier result is kept if the later host permanently refuses a
 * message that the better host may still accept, and if the later host did not reply about the recipient, for example because its idle
 * session turned out to be closed.
 */
export function laterResult(before: AttemptResult | undefined, now: AttemptResult): AttemptResult {
  if (before?.kind !== 'classified') return now;
  if (now.kind === 'put back') return before;
  if (now.kind !== 'classified' || now.outcome.kind !== 'permanent') return now;
  return { ...before, facts: { ...before.facts, dialogue: now.facts.dialogue } };
}

/** Records what a pass showed about an address; ends the session if it may carry no more messages. */
export function learn(hosts: HostMemory, { pooled, sent, reused }: Pass, group: readonly DeliveryItem[]): void {
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
  else if (!sent.pipeliningFailed && sent.recipients.some(isHostFailure)) {
    hosts.failed(peer.host, [peer.address], pooled.candidate.allAddresses);
  }
  for (const [index, { stage, accepted, reply }] of sent.recipients.entries()) {
    if (stage !== 'dot' || accepted || (reply && reply.code >= 500)) continue;
    hosts.dotFailed(group[index]!.job.messageId, peer);
  }
}

/**
 * Returns the hosts that an attempt tries after a pass, for the recipients that continue: the other addresses of the host, unless all
 * failures are about the recipients' mailboxes, then the hosts after it. If no host is left and commands were lost, the same address is
 * tried without PIPELINING.
 */
export function remainingHosts({ pooled, sent }: Pass, going: readonly AttemptResult[]): readonly Candidate[] {
  const { host, address } = peerOf(pooled);
  const isOfMailbox = (one: AttemptResult): boolean =>
    one.kind === 'classified' && one.outcome.owner === 'recipient' && one.outcome.category !== 'greylisted';
  const isOfMailboxes = going.length > 0 && going.every(isOfMailbox);
  const rest = isOfMailboxes ? pooled.rest.filter((one) => one.host !== host) : pooled.rest;
  return sent.pipeliningFailed && rest.length === 0 ? [{ ...pooled.candidate, addresses: [address] }] : rest;
}

/**
 * Returns the addresses and domains that mean only the sender of a message. The domain in MAIL FROM is one of them if it is below the
 * sender's domain. Otherwise it is the bounce domain, which all senders share. The domain of the recipient can mean the server.
 */
function sendersOf(mailFrom: string, { job }: DeliveryItem): string[] {
  const domain = domainOf(job.envelopeFrom);
  const pathDomain = domainOf(mailFrom);
  const isOwn = domain !== '' && pathDomain.endsWith(`.${domain}`);
  const domains = [domain, ...(isOwn ? [pathDomain] : [])].filter((one) => one !== domainOf(job.recipient));
  return [mailFrom, job.envelopeFrom, ...domains];
}

/** Returns the signal of a pass about the destination. */
export function signalOfPass({ pooled, sent, mailFrom }: Pass, results: readonly AttemptResult[]): Signal {
  const answers = results.map((one, index) => ({
    result: sent.recipients[index]!,
    outcome: one.kind === 'classified' ? one.outcome : undefined,
    senders: sendersOf(mailFrom, one.item),
  }));
  return signalOfSession(answers, pooled.session.remoteHost);
}

/** Puts back recipients that were refused because of the number of Postrider's connections. */
export function putBackRefused(signal: Signal, results: readonly AttemptResult[]): AttemptResult[] {
  if (signal.kind !== 'connection-limit') return [...results];
  return results.map((one): AttemptResult => {
    const isAgain = one.kind === 'classified' && mayReturn(one.item, MAX_RETURNS_WITHOUT_SESSION);
    return isAgain ? { item: one.item, kind: 'put back' } : one;
  });
}

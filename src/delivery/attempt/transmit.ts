/**
 * Sends one email to its recipients at one destination, host by host, until every recipient has a final result. Recipients that a host
 * accepted or permanently refused are done. Recipients with a temporary failure continue at the next host in the same attempt, at up to
 * three hosts (RFC 5321 §5.1). If the next host belongs to another destination, they continue in that queue, and the attempt is recorded
 * when it ends there. The promise never rejects because of a peer.
 *
 * In seven cases the attempt does not count, and the recipient is put back in the queue:
 *
 * - An idle session turns out to be closed, or replies 421 before it read anything (RFC 5321 §3.8).
 * - The domain turns out to have other hosts than expected.
 * - The peer refuses another connection or session while others of this process are open there.
 * - The server announced that it accepts fewer recipients per transaction (RFC 9422).
 * - The transaction has too many recipients (reply 452, 552, or 550 5.5.3), for the recipients that the peer did not accept (RFC 5321
 *   §4.5.3.1.10).
 * - A planned stop cancels the attempt before the final dot.
 * - The lease of a recipient ended before the final dot, so another node may have the message now.
 *
 * In none of these cases has the peer received a final dot. If an earlier host of the attempt deferred the recipient, the attempt counts
 * anyway, with the reply of that host. The number of times a recipient is put back is limited.
 */
import type { SmtpContent, SmtpMessage } from '../../net/smtp-client.ts';
import { limitsOf } from '../../net/smtp-limits.ts';
import type { Shares } from '../destinations/shares.ts';
import { classify, type Evidence } from '../outcome/outcome.ts';
import { laterSignal, NO_SIGNAL, requestsFewerConnections, type Signal, signalOfOpening } from '../outcome/signal.ts';
import type { DeliveryItem, Detour } from '../queue/delivery-item.ts';
import type { AttemptFacts } from '../record/settle.ts';
import { ELSEWHERE, type OpenFailure } from '../routing/candidates.ts';
import { feedbackFields } from '../routing/feedback-address.ts';
import { type HostMemory, peerKey } from '../routing/hosts.ts';
import type { MissingDomains } from '../routing/missing-domain.ts';
import type { ReturnPaths } from '../routing/return-path.ts';
import { type Candidate, domainOf, isRelay } from '../routing/route.ts';
import type { Connections } from './connections.ts';
import type { StreamedContent } from './large.ts';
import {
  type AttemptReport,
  type AttemptResult,
  type AttemptTiming,
  classifyPass,
  conclude,
  continuesAtNextHost,
  dialogueOf,
  laterResult,
  learn,
  mayReturn,
  type Pass,
  putBackRefused,
  remainingHosts,
  signalOfPass,
} from './pass.ts';
import { hasShareLeft, isFit, type PooledSession, type SessionNeed } from './pooled-session.ts';
import { type OutgoingMail, type PreparedEmail, receivedField, sendFitting } from './prepare.ts';

/** Limits of one attempt: the hosts that receive the message, and the sessions with all addresses of these hosts. */
const MAX_HOSTS = 3;
const MAX_SESSIONS = 6;
/** After this time an attempt tries no other host and ends with its current results; the next attempt continues. */
const MAX_BEFORE_NEXT_MS = 900_000;

export type Transmission = Pick<AttemptReport, 'results' | 'signal' | 'pooled'>;

/** The objects that all attempts share. */
export interface Senders {
  connections: Connections;
  hosts: HostMemory;
  missingDomains: MissingDomains;
  returnPaths: ReturnPaths;
  /** The host name for EHLO and Received. */
  hostname: string;
}

/** Receives the progress of an attempt while it runs. */
export interface Progress {
  /** Reports the session that the attempt uses from now on, so a deadline can end it. */
  usesSession(pooled: PooledSession): void;
  /** Reports that the peer accepted an envelope, so it is not stalled there. */
  envelopeAccepted(): void;
  /** Reports recipients that are done while others continue at the next host. */
  ended(results: readonly AttemptResult[]): void;
}

export interface TransmissionRequest {
  group: DeliveryItem[];
  destination: string;
  prepared: PreparedEmail;
  pooled: PooledSession | undefined;
  senders: Senders;
  progress: Progress;
  /** Limits how many messages may be sent: set if the sending addresses are warming up, or if the relay has a limit. */
  shares: Shares | undefined;
  /** Returns whether the leases of all recipients are valid. Without them no transaction starts and no final dot is written. */
  holds(): boolean;
  /** Returns whether a transaction may start on a session that was just opened. */
  mayBegin(): boolean;
  nowMs(): number;
}

function stopwatch(nowMs: () => number): () => AttemptTiming {
  const startedAtMs = nowMs();
  const start = performance.now();
  return () => ({ startedAtMs, durationMs: Math.round(performance.now() - start) });
}

const NO_FACTS = { host: null, address: null, tls: null, dialogue: [] };
const NO_HOSTS: ReadonlySet<string> = new Set();

/** Puts all messages back and keeps the session. */
export function nothingSent(group: readonly DeliveryItem[], pooled: PooledSession | undefined): Transmission {
  return { pooled, results: group.map((item) => ({ item, kind: 'put back' as const })), signal: NO_SIGNAL };
}

/** Returns the result for an email that could not be prepared, whatever its destination. */
function unpreparedResult(
  attempt: TransmissionRequest,
  evidence: Omit<Evidence, 'relay'>,
  clocked: AttemptTiming,
): Transmission {
  const outcome = classify({ ...evidence, relay: isRelay(attempt.destination) });
  const facts = { ...NO_FACTS, ...clocked };
  const results = attempt.group.map((item) => ({ item, kind: 'classified' as const, outcome, facts }));
  return { pooled: attempt.pooled, results, signal: NO_SIGNAL };
}

/** Returns the number of open sessions at the destination if one of them is with the hosts that refused another one; otherwise 0. */
function countOpenSessions({ senders: { connections }, destination, group }: TransmissionRequest): number {
  return connections.count(destination, group[0]!.domain) > 0 ? connections.count(destination) : 0;
}

function notOpenedResult(attempt: TransmissionRequest, opened: OpenFailure, clocked: AttemptTiming): Transmission {
  const { evidence, facts, forNeed: isForNeed, isPassedOver } = opened;
  const outcome = classify(evidence);
  const isPutBack = (item: DeliveryItem): boolean =>
    evidence.cause === 'ECANCELLED' || (evidence.cause === ELSEWHERE && mayReturn(item));
  const signal = isPassedOver
    ? NO_SIGNAL
    : signalOfOpening({ evidence, host: facts.host, isForNeed, open: countOpenSessions(attempt) }, outcome);
  const results = attempt.group.map(
    (item): AttemptResult =>
      isPutBack(item)
        ? { item, kind: 'put back' }
        : { item, kind: 'classified', outcome, facts: { ...facts, ...clocked } },
  );
  const kept = putBackRefused(signal, results);
  return { pooled: undefined, results: kept.map((one) => continuing(one, opened)), signal };
}

/** Lets a result continue at the next destination, if there is one. */
function continuing(
  one: AttemptResult,
  { nextDestination, isPassedOver }: Pick<OpenFailure, 'nextDestination' | 'isPassedOver'>,
  hostsTried = 0,
): AttemptResult {
  if (!nextDestination || one.kind !== 'classified') return one;
  const { item } = one;
  const { detour } = item.hop;
  const { outcome, facts } = conclude(one);
  return {
    item,
    kind: 'continues',
    hop: {
      destination: nextDestination.key,
      detour: {
        ...detour,
        rest: nextDestination.rest,
        hosts: hostCount(item) + hostsTried,
        before: isPassedOver ? detour?.before : { outcome, facts },
      },
    },
  };
}

function hostCount({ hop }: DeliveryItem): number {
  return hop.detour?.hosts ?? 0;
}

/** Puts all messages back because the share is used up. They wait as they do for a paused destination. */
function shareUsedUp({ group }: TransmissionRequest, shares: Shares): Transmission {
  const { ms, outcome } = shares.untilMore();
  const signal: Signal = { kind: 'wait', request: { ms }, refusal: { outcome, host: null } };
  return { ...nothingSent(group, undefined), signal };
}

/** Returns the first recipients that the server accepts in one transaction (RFC 9422); the others stay in the queue. */
function withinLimits({ session }: PooledSession, pending: DeliveryItem[]): DeliveryItem[] {
  const { rcptMax, rcptDomainMax } = limitsOf(session.extensions);
  if (pending.length <= rcptMax && rcptDomainMax === Number.POSITIVE_INFINITY) return pending;
  const domains = new Set<string>();
  const fitting = pending.filter(({ job }) => {
    const domain = domainOf(job.recipient);
    const fits = domains.has(domain) || domains.size < rcptDomainMax;
    if (fits) domains.add(domain);
    return fits;
  });
  const within = fitting.slice(0, rcptMax);
  return within.length === pending.length ? pending : within;
}

/** Takes shares for the source address of this session and returns the recipients that they cover; the others stay in the queue. */
async function takeShare(
  shares: Shares | undefined,
  pooled: PooledSession,
  pending: DeliveryItem[],
): Promise<DeliveryItem[]> {
  const granted = (await shares?.take(pooled.session.sourceAddress, pending.length)) ?? pending.length;
  return granted === pending.length ? pending : pending.slice(0, granted);
}

/** Returns the shares of recipients that were deferred, or not tried, before the final dot. */
function returnShare(shares: Shares | undefined, { pooled, sent }: Pass, results: readonly AttemptResult[]): void {
  if (!shares) return;
  const isUnsent = (one: AttemptResult, index: number): boolean =>
    (one.kind !== 'classified' || one.outcome.kind === 'temporary') && sent.recipients[index]!.stage !== 'dot';
  shares.releaseUnused(pooled.session.sourceAddress, results.filter(isUnsent).length);
}

/** Returns a stream of the head and the content that starts again each time it is read. */
function streamedAfter(head: Buffer, content: StreamedContent, onRead: () => void): SmtpContent {
  return {
    async *[Symbol.asyncIterator]() {
      onRead();
      yield head;
      yield* content.read();
    },
  };
}

async function outgoingMailOf(
  attempt: TransmissionRequest,
  prepared: PreparedEmail & { ok: true },
): Promise<OutgoingMail> {
  const { group, holds, progress, senders } = attempt;
  const { job } = group[0]!;
  const received = receivedField(job, senders.hostname);
  const mailFrom = senders.returnPaths.of(job, { isShared: group.length > 1, ownDomain: prepared.ownReturnPath });
  const fields = feedbackFields(mailFrom, prepared.feedbackDomain);
  const signed = await prepared.sign(fields);
  const head = Buffer.from(`${received}${signed}`, 'latin1');
  const { content } = prepared;
  const isWhole = Buffer.isBuffer(content);
  const message: SmtpMessage = {
    mailFrom,
    recipients: group.map((item) => item.job.recipient),
    content: isWhole ? [head, content] : streamedAfter(head, content, () => progress.envelopeAccepted()),
    sizeBytes: head.length + (isWhole ? content.length : content.sizeBytes),
    smtpUtf8: job.options.smtpUtf8,
    eightBit: job.options.eightBit,
    requireTls: job.options.requireTls,
    mayEnd: () => {
      progress.envelopeAccepted();
      return holds();
    },
  };
  return { message, prepared, received, fields, headBytes: head.length };
}

/** Returns the mail for some recipients of the group. A single one gets its own return path, which identifies it in a bounce. */
async function outgoingMailTo(
  some: DeliveryItem[],
  mail: { attempt: TransmissionRequest; prepared: PreparedEmail & { ok: true }; sending: OutgoingMail },
): Promise<OutgoingMail> {
  const { attempt, prepared, sending } = mail;
  if (some.length === 1 && attempt.group.length > 1) return outgoingMailOf({ ...attempt, group: some }, prepared);
  return { ...sending, message: { ...sending.message, recipients: some.map((item) => item.job.recipient) } };
}

/** Returns the slot's session if the message may use it. */
function reusableSession(
  { pooled, senders: { connections } }: TransmissionRequest,
  need: SessionNeed,
): PooledSession | undefined {
  if (!pooled) return undefined;
  const isFor = connections.isFor(pooled, need.domain) && isFit(pooled, need);
  if (pooled.session.usable && hasShareLeft(pooled) && isFor) return pooled;
  void connections.release(pooled);
  return undefined;
}

/** Keeps the session for the next message, or closes it if it is not usable. */
function keepIfUsable(connections: Connections, pooled: PooledSession): PooledSession | undefined {
  if (pooled.session.usable && !pooled.spare) return pooled;
  void connections.release(pooled);
  return undefined;
}

/** Returns the addresses at which one of these messages failed after its final dot. */
function avoidedBy({ group, senders: { hosts } }: TransmissionRequest): ReadonlySet<string> {
  const retried = group.filter((item) => item.job.attempts > 0);
  if (retried.length === 0) return NO_HOSTS;
  return new Set(
    retried.flatMap(({ job }) => {
      const peer = hosts.dotFailedAt(job.messageId);
      return peer ? [peerKey(peer)] : [];
    }),
  );
}

async function needOf(attempt: TransmissionRequest, { message }: OutgoingMail): Promise<SessionNeed> {
  const { group, senders, shares } = attempt;
  const { domain, job } = group[0]!;
  return {
    domain,
    tls: message.requireTls ?? false,
    avoid: avoidedBy(attempt),
    asks: await senders.connections.asksOf(domain, job.options.tlsOptional === true),
    attempts: Math.max(...group.map((item) => item.job.attempts)),
    emailSeq: job.emailSeq,
    detour: detourOf(group),
    ...(shares && { maySendFrom: shares.hasCapacity }),
  };
}

/** Returns the detour of the group; if recipients have different ones, the one with the fewest hosts left. */
function detourOf(group: readonly DeliveryItem[]): Detour | undefined {
  const all = group.flatMap(({ hop }) => hop.detour ?? []);
  return all.sort((a, b) => (a.rest?.length ?? Infinity) - (b.rest?.length ?? Infinity))[0];
}

interface Next {
  pooled: PooledSession;
  /** The hosts that are left for these recipients. The session keeps its own list for the next message. */
  rest: readonly Candidate[];
  need: SessionNeed;
  remaining: readonly DeliveryItem[];
  /** The number of hosts that received the message. */
  hosts: number;
  /** The number of sessions that were opened. */
  sessions: number;
  durationMs: number;
}

/** Opens a session with the next host for the remaining recipients, or returns the destination of that host; undefined if there is none. */
async function nextHost(
  { destination, senders: { connections } }: TransmissionRequest,
  next: Next,
): Promise<PooledSession | Pick<OpenFailure, 'nextDestination'> | undefined> {
  const { pooled, need, remaining, hosts, sessions, durationMs } = next;
  let { rest } = next;
  if (remaining.length === 0 || sessions >= MAX_SESSIONS) return undefined;
  const beforeMs = Math.max(0, ...remaining.map(({ hop }) => hop.detour?.before?.facts.durationMs ?? 0));
  if (beforeMs + durationMs > MAX_BEFORE_NEXT_MS) return undefined;
  const isOwn = pooled.domain === need.domain;
  if (hosts + Math.max(...remaining.map(hostCount)) >= MAX_HOSTS) {
    // No other host may receive the message: only more addresses of the last host are left.
    if (!isOwn) return undefined;
    rest = rest.filter(({ host }) => host === pooled.session.remoteHost);
  }
  if (isOwn && rest.length === 0) return undefined;
  const opened = await connections.open(destination, need, { ...pooled, rest });
  return opened.ok ? opened.pooled : opened;
}

/**
 * Treats a refusal as a limit on the number of connections if others are open: closes this session, and the messages continue on the
 * others.
 */
function asConnectionLimit(signal: Signal, pooled: PooledSession, connections: Connections): Signal {
  if (!requestsFewerConnections(signal)) return signal;
  pooled.session.destroy();
  const open = connections.count(pooled.destination);
  return open === 0 ? signal : { kind: 'connection-limit', open };
}

export async function transmit(attempt: TransmissionRequest): Promise<Transmission> {
  const { group, destination, prepared, senders, progress, shares } = attempt;
  const { connections, hosts: memory, missingDomains } = senders;
  const elapsed = stopwatch(attempt.nowMs);
  if (!prepared.ok) return unpreparedResult(attempt, prepared.evidence, elapsed());
  const sending = await outgoingMailOf(attempt, prepared);
  await shares?.prepare(group.length);
  const need = await needOf(attempt, sending);

  const results = new Map<DeliveryItem, AttemptResult>();
  let pending = group;
  let earlier: AttemptFacts['dialogue'] = [];
  let signal: Signal = NO_SIGNAL;
  let pooled = reusableSession(attempt, need) ?? connections.take(destination, need);
  let hosts = 1;
  if (!pooled) {
    const opened = await connections.open(destination, need);
    if (!opened.ok) {
      if (opened.noSource && shares) return shareUsedUp(attempt, shares);
      const { accountId, recipient } = group[0]!.job;
      const evidence = await missingDomains.evidenceFor(opened.evidence, { accountId, recipient });
      return notOpenedResult(attempt, { ...opened, evidence }, elapsed());
    }
    pooled = opened.pooled;
  }
  // Later passes check this only at the final dot, because the recipients that a host has accepted must be recorded in any case.
  if (!attempt.mayBegin()) return nothingSent(group, pooled);
  for (let sessions = 1; ; sessions += 1) {
    progress.usesSession(pooled);
    pending = await takeShare(shares, pooled, withinLimits(pooled, pending));
    if (pending.length === 0) {
      if (sessions === 1) return nothingSent(group, pooled);
      void connections.release(pooled);
      return { pooled: undefined, results: [...results.values()], signal };
    }

    const reused = pooled.used > 0;
    pooled.used += 1;
    const own = pending === group ? sending : await outgoingMailTo(pending, { attempt, prepared, sending });
    const sent = await sendFitting(pooled.session, own);
    const { mailFrom } = own.message;
    const pass: Pass = { pooled, mailFrom, sent, reused, earlier, clocked: elapsed() };
    learn(memory, pass, pending);
    const classified = classifyPass({ group: pending, destination }, pass);
    const replySignal = asConnectionLimit(signalOfPass(pass, classified), pooled, connections);
    signal = laterSignal(signal, replySignal);
    const passResults = putBackRefused(replySignal, classified);
    returnShare(shares, pass, passResults);
    for (const one of passResults) results.set(one.item, laterResult(results.get(one.item), one));

    const remaining = pending.filter((_, index) => continuesAtNextHost(passResults[index]!, sent.recipients[index]!));
    if (remaining.length > 0) progress.ended(passResults.filter((one) => !remaining.includes(one.item)));
    const going = passResults.filter(({ item }) => remaining.includes(item));
    const rest = remainingHosts(pass, going);
    const { durationMs } = pass.clocked;
    const next = await nextHost(attempt, { pooled, rest, need, hosts, sessions, remaining, durationMs });
    if (!next || !('session' in next)) {
      const continued = [...results.values()].map((one) =>
        next && remaining.includes(one.item) ? continuing(one, { nextDestination: next.nextDestination }, hosts) : one,
      );
      return { pooled: keepIfUsable(connections, pooled), results: continued, signal };
    }
    earlier = dialogueOf(pass);
    pending = remaining;
    void connections.release(pooled);
    if (next.session.remoteHost !== pooled.session.remoteHost) hosts += 1;
    pooled = next;
  }
}

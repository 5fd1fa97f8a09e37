/**
 * Sends one email to its recipients at one destination: host after host, until every recipient has a result that stands. Recipients that a
 * host accepted or permanently refused are done; those whose failure is temporary go on to the next host in the same attempt, three hosts at
 * most (RFC 5321 §5.1). Where the next host counts for another destination, they continue in the queue of that one, and the attempt is
 * recorded when it ends there. Never rejects because of a peer.
 *
 * Six things are no attempt, and the recipient is put back to wait instead:
 *
 * - a session that had been idle turns out to be closed, or replies 421 before it read anything (RFC 5321 §3.8);
 * - the domain turns out to have other hosts than those whose turn it was;
 * - the peer refuses one more connection or session while others of ours are open there;
 * - too many recipients in one transaction, by 452, 552 or 550 5.5.3, for those beyond the ones it accepted (RFC 5321 §4.5.3.1.10);
 * - a planned stop cancels before the final dot;
 * - the lease of one of the recipients has ended before the final dot: another node may have the message now.
 *
 * In none of them has the peer seen a final dot. A recipient is put back a few times at most.
 */
import type { SmtpContent, SmtpMessage } from '../../net/smtp-client.ts';
import type { DayShares } from '../destinations/warm-up.ts';
import { classify, type Evidence } from '../outcome/outcome.ts';
import { asksForFewerConnections, laterSignal, NO_SIGNAL, type Signal, signalOfOpening } from '../outcome/signal.ts';
import type { Detour, Held } from '../queue/held.ts';
import type { AttemptFacts } from '../record/settle.ts';
import { ELSEWHERE, type NotOpened } from '../routing/candidates.ts';
import { feedbackFields } from '../routing/feedback-address.ts';
import { type HostMemory, peerKey } from '../routing/hosts.ts';
import type { MissingDomains } from '../routing/missing-domain.ts';
import type { ReturnPaths } from '../routing/return-path.ts';
import { isRelay } from '../routing/route.ts';
import type { Connections } from './connections.ts';
import type { StreamedContent } from './large.ts';
import {
  type AttemptReport,
  type AttemptResult,
  type Clocked,
  classifyPass,
  conclude,
  dialogueOf,
  goesOn,
  laterResult,
  learn,
  mayReturn,
  type Pass,
  putBackRefused,
  restAfter,
  signalOfPass,
} from './pass.ts';
import { hasShareLeft, isFit, type PooledSession, type SessionNeed } from './pooled-session.ts';
import { type Prepared, receivedField, type Sending, sendFitting } from './prepare.ts';

/** Hosts that are given the message in one attempt, and sessions with all of their addresses together. */
const MAX_HOSTS = 3;
const MAX_SESSIONS = 6;
/** An attempt that has taken so long ends with the results it has: the next attempt goes on. */
const MAX_BEFORE_NEXT_MS = 900_000;

export type Transmission = Pick<AttemptReport, 'results' | 'signal' | 'pooled'>;

/** The objects that all attempts share. */
export interface Senders {
  connections: Connections;
  hosts: HostMemory;
  missingDomains: MissingDomains;
  returnPaths: ReturnPaths;
  /** Our name in EHLO and Received. */
  hostname: string;
}

/** Receives the progress of an attempt while it runs. */
export interface Progress {
  /** A session is used from now on, so a deadline can cut it. */
  usesSession(pooled: PooledSession): void;
  /** The peer has accepted an envelope: it does not fall silent in it. */
  envelopeAccepted(): void;
  /** These recipients are done, while others go on to the next host. */
  ended(results: readonly AttemptResult[]): void;
}

export interface Transmitting {
  group: Held[];
  destination: string;
  prepared: Prepared;
  /** The session to go on with. */
  pooled: PooledSession | undefined;
  senders: Senders;
  progress: Progress;
  /** The rest of today's shares, while the sending addresses warm up. */
  shares: DayShares | undefined;
  /** Whether the leases of all recipients hold: no transaction begins without them, and no final dot is written. */
  holds(): boolean;
  /** Whether a transaction may begin on a session that was just opened. */
  mayBegin(): boolean;
  nowMs(): number;
}

function stopwatch(nowMs: () => number): () => Clocked {
  const startedAtMs = nowMs();
  const start = performance.now();
  return () => ({ startedAtMs, durationMs: Math.round(performance.now() - start) });
}

const NO_FACTS = { host: null, address: null, tls: null, dialogue: [] };
const NO_HOSTS: ReadonlySet<string> = new Set();

/** All are put back, and the session is as it was. */
export function nothingSent(group: readonly Held[], pooled: PooledSession | undefined): Transmission {
  return { pooled, results: group.map((held) => ({ held, kind: 'put back' as const })), signal: NO_SIGNAL };
}

/** The email itself cannot be sent. */
function unprepared(attempt: Transmitting, evidence: Omit<Evidence, 'relay'>, clocked: Clocked): Transmission {
  const outcome = classify({ ...evidence, relay: isRelay(attempt.destination) });
  const facts = { ...NO_FACTS, ...clocked };
  const results = attempt.group.map((held) => ({ held, kind: 'ended' as const, outcome, facts }));
  return { pooled: attempt.pooled, results, signal: NO_SIGNAL };
}

/** Sessions that are open at the destination, where one of them is with the hosts that did not open one more; else none. */
function openBeside({ senders: { connections }, destination, group }: Transmitting): number {
  return connections.count(destination, group[0]!.domain) > 0 ? connections.count(destination) : 0;
}

function notOpened(attempt: Transmitting, opened: NotOpened, clocked: Clocked): Transmission {
  const { evidence, facts, forNeed: isForNeed, isPassedOver } = opened;
  const outcome = classify(evidence);
  const isAgain = (held: Held): boolean =>
    evidence.cause === 'ECANCELLED' || (evidence.cause === ELSEWHERE && mayReturn(held));
  const signal = isPassedOver
    ? NO_SIGNAL
    : signalOfOpening({ evidence, host: facts.host, isForNeed, open: openBeside(attempt) }, outcome);
  const results = attempt.group.map(
    (held): AttemptResult =>
      isAgain(held) ? { held, kind: 'put back' } : { held, kind: 'ended', outcome, facts: { ...facts, ...clocked } },
  );
  const kept = putBackRefused(signal, results);
  return { pooled: undefined, results: kept.map((one) => continuing(one, opened)), signal };
}

/** Continues at the next destination, where there is one. */
function continuing(
  one: AttemptResult,
  { nextDestination, isPassedOver }: Pick<NotOpened, 'nextDestination' | 'isPassedOver'>,
  hostsGiven = 0,
): AttemptResult {
  if (!nextDestination || one.kind !== 'ended') return one;
  const { held } = one;
  const { detour } = held.hop;
  const { outcome, facts } = conclude(one);
  return {
    held,
    kind: 'continues',
    hop: {
      destination: nextDestination.key,
      detour: {
        ...detour,
        rest: nextDestination.rest,
        hosts: hostsOf(held) + hostsGiven,
        before: isPassedOver ? detour?.before : { outcome, facts },
      },
    },
  };
}

function hostsOf({ hop }: Held): number {
  return hop.detour?.hosts ?? 0;
}

/** Nothing more is sent today: all of them are put back, and wait as they do for any destination that is paused. */
function shareSpent({ group }: Transmitting, shares: DayShares): Transmission {
  const { ms, outcome } = shares.untilTomorrow();
  const signal: Signal = { kind: 'wait', request: { ms }, refusal: { outcome, host: null } };
  return { ...nothingSent(group, undefined), signal };
}

/** Those for whom something is left of the address that this session comes from; the others stay in the queue. */
async function takeShare(shares: DayShares | undefined, pooled: PooledSession, pending: Held[]): Promise<Held[]> {
  const granted = (await shares?.take(pooled.session.sourceAddress, pending.length)) ?? pending.length;
  return granted === pending.length ? pending : pending.slice(0, granted);
}

/** Gives back the shares of those that were deferred, or not even tried, before the final dot. */
function returnShare(shares: DayShares | undefined, { pooled, sent }: Pass, results: readonly AttemptResult[]): void {
  if (!shares) return;
  const isUnsent = (one: AttemptResult, index: number): boolean =>
    (one.kind !== 'ended' || one.outcome.kind === 'temporary') && sent.recipients[index]!.stage !== 'dot';
  shares.giveBack(pooled.session.sourceAddress, results.filter(isUnsent).length);
}

/** Streamed content after its head; read from the beginning each time it is sent. */
function streamedAfter(head: Buffer, content: StreamedContent, onRead: () => void): SmtpContent {
  return {
    async *[Symbol.asyncIterator]() {
      onRead();
      yield head;
      yield* content.read();
    },
  };
}

async function sendingOf(attempt: Transmitting, prepared: Prepared & { ok: true }): Promise<Sending> {
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
    recipients: group.map((held) => held.job.recipient),
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

function sendingTo(group: readonly Held[], sending: Sending): Sending {
  return { ...sending, message: { ...sending.message, recipients: group.map((held) => held.job.recipient) } };
}

/** The session that the slot goes on with, where it will do. */
function reusable({ pooled, senders: { connections } }: Transmitting, need: SessionNeed): PooledSession | undefined {
  if (!pooled) return undefined;
  const isFor = connections.isFor(pooled, need.domain) && isFit(pooled, need);
  if (pooled.session.usable && hasShareLeft(pooled) && isFor) return pooled;
  void connections.release(pooled);
  return undefined;
}

/** The session for the next message; one that will not do for it is closed. */
function keepIfGood(connections: Connections, pooled: PooledSession): PooledSession | undefined {
  if (pooled.session.usable && !pooled.spare) return pooled;
  void connections.release(pooled);
  return undefined;
}

/** Addresses at which one of these messages failed after its final dot. */
function avoidedBy({ group, senders: { hosts } }: Transmitting): ReadonlySet<string> {
  const retried = group.filter((held) => held.job.attempts > 0);
  if (retried.length === 0) return NO_HOSTS;
  return new Set(
    retried.flatMap(({ job }) => {
      const peer = hosts.dotFailedAt(job.messageId);
      return peer ? [peerKey(peer)] : [];
    }),
  );
}

async function needOf(attempt: Transmitting, { message }: Sending): Promise<SessionNeed> {
  const { group, senders, shares } = attempt;
  const { domain, job } = group[0]!;
  return {
    domain,
    tls: message.requireTls ?? false,
    avoid: avoidedBy(attempt),
    asks: await senders.connections.asksOf(domain, job.options.tlsOptional === true),
    attempts: Math.max(...group.map((held) => held.job.attempts)),
    emailSeq: job.emailSeq,
    detour: detourOf(group),
    ...(shares && { mayLeaveFrom: shares.hasRoom }),
  };
}

/** Returns the detour of the group; if recipients have different ones, the one with the fewest hosts left. */
function detourOf(group: readonly Held[]): Detour | undefined {
  const all = group.flatMap(({ hop }) => hop.detour ?? []);
  return all.sort((a, b) => (a.rest?.length ?? Infinity) - (b.rest?.length ?? Infinity))[0];
}

interface Next {
  pooled: PooledSession;
  need: SessionNeed;
  going: readonly Held[];
  /** Hosts that were given the message, and sessions. */
  hosts: number;
  sessions: number;
  durationMs: number;
}

/** A session with the next host for those that go on, or the destination of one; undefined where there is none. */
async function nextHost(
  { destination, senders: { connections } }: Transmitting,
  next: Next,
): Promise<PooledSession | Pick<NotOpened, 'nextDestination'> | undefined> {
  const { pooled, need, going, hosts, sessions, durationMs } = next;
  if (going.length === 0 || sessions >= MAX_SESSIONS) return undefined;
  const beforeMs = Math.max(0, ...going.map(({ hop }) => hop.detour?.before?.facts.durationMs ?? 0));
  if (beforeMs + durationMs > MAX_BEFORE_NEXT_MS) return undefined;
  const isOwn = pooled.domain === need.domain;
  if (hosts + Math.max(...going.map(hostsOf)) >= MAX_HOSTS) {
    // Only further addresses of the last host.
    if (!isOwn) return undefined;
    pooled.rest = pooled.rest.filter(({ host }) => host === pooled.session.remoteHost);
  }
  if (isOwn && pooled.rest.length === 0) return undefined;
  const opened = await connections.open(destination, need, pooled);
  return opened.ok ? opened.pooled : opened;
}

/** A refusal that is about the number of our connections, while others are open: this one is closed, and they go on. */
function asConnectionLimit(signal: Signal, pooled: PooledSession, connections: Connections): Signal {
  if (!asksForFewerConnections(signal)) return signal;
  pooled.session.destroy();
  const open = connections.count(pooled.destination);
  return open === 0 ? signal : { kind: 'connection-limit', open };
}

export async function transmit(attempt: Transmitting): Promise<Transmission> {
  const { group, destination, prepared, senders, progress, shares } = attempt;
  const { connections, hosts: memory, missingDomains } = senders;
  const elapsed = stopwatch(attempt.nowMs);
  if (!prepared.ok) return unprepared(attempt, prepared.evidence, elapsed());
  const sending = await sendingOf(attempt, prepared);
  await shares?.prepare(group.length);
  const need = await needOf(attempt, sending);

  const results = new Map<Held, AttemptResult>();
  let pending = group;
  let earlier: AttemptFacts['dialogue'] = [];
  let signal: Signal = NO_SIGNAL;
  let pooled = reusable(attempt, need) ?? connections.take(destination, need);
  let hosts = 1;
  if (!pooled) {
    const opened = await connections.open(destination, need);
    if (!opened.ok) {
      if (opened.noSource && shares) return shareSpent(attempt, shares);
      const { accountId, recipient } = group[0]!.job;
      const evidence = await missingDomains.evidenceFor(opened.evidence, { accountId, recipient });
      return notOpened(attempt, { ...opened, evidence }, elapsed());
    }
    pooled = opened.pooled;
  }
  // Later passes are held back at the dot: what a host accepted is recorded in any case.
  if (!attempt.mayBegin()) return nothingSent(group, pooled);
  for (let sessions = 1; ; sessions += 1) {
    progress.usesSession(pooled);
    pending = await takeShare(shares, pooled, pending);
    if (pending.length === 0) {
      if (sessions === 1) return nothingSent(group, pooled);
      void connections.release(pooled);
      return { pooled: undefined, results: [...results.values()], signal };
    }

    const reused = pooled.used > 0;
    pooled.used += 1;
    const sent = await sendFitting(pooled.session, pending === group ? sending : sendingTo(pending, sending));
    const pass: Pass = { pooled, sent, reused, earlier, clocked: elapsed() };
    learn(memory, pass, pending);
    const classified = classifyPass({ group: pending, destination }, pass);
    const said = asConnectionLimit(signalOfPass(pass, classified), pooled, connections);
    signal = laterSignal(signal, said);
    const now = putBackRefused(said, classified);
    returnShare(shares, pass, now);
    for (const one of now) results.set(one.held, laterResult(results.get(one.held), one));

    const going = pending.filter((_, index) => goesOn(now[index]!, sent.recipients[index]!));
    if (going.length > 0) progress.ended(now.filter((one) => !going.includes(one.held)));
    pooled.rest = restAfter(
      pass,
      now.filter(({ held }) => going.includes(held)),
    );
    const { durationMs } = pass.clocked;
    const next = await nextHost(attempt, { pooled, need, hosts, sessions, going, durationMs });
    if (!next || !('session' in next)) {
      const continued = [...results.values()].map((one) =>
        next && going.includes(one.held) ? continuing(one, { nextDestination: next.nextDestination }, hosts) : one,
      );
      return { pooled: keepIfGood(connections, pooled), results: continued, signal };
    }
    earlier = dialogueOf(pass);
    pending = going;
    void connections.release(pooled);
    if (next.session.remoteHost !== pooled.session.remoteHost) hosts += 1;
    pooled = next;
  }
}

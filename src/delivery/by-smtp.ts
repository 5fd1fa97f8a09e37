/**
 * One email to its recipients at one destination: takes or opens a session, sends, and says per recipient what happened.
 * Six things are no attempt, and the recipient is put back to wait instead:
 *
 * - a session that had been idle turns out to be closed, or says 421 before it took anything (RFC 5321 §3.8);
 * - the domain turns out to have other exchangers than those whose turn it was;
 * - the peer refuses one more connection or session while others of ours are open there;
 * - too many recipients in one transaction, by 452, 552 or 550 5.5.3, for those beyond the ones it took (RFC 5321 §4.5.3.1.10);
 * - a planned stop cancels before the final dot;
 * - the lease of one of the recipients has ended before the final dot: somebody else may have the message now.
 *
 * In none of them has the peer seen a final dot. A recipient is put back a few times at most. Recipients whose fault is temporary go
 * on to the next exchanger in the same attempt (pass.ts), to two at most. Where that one counts for another destination, they go on in
 * its queue: the attempt is recorded when it ends there.
 */
import type { SmtpContent, SmtpMessage } from '../net/smtp-client.ts';
import { type Held, type Onward, type Prepared, receivedField, type Sending, sendFitting } from './attempt.ts';
import { ELSEWHERE, type NotOpened } from './candidates.ts';
import type { Connections } from './connections.ts';
import type { Signal } from './destinations.ts';
import { feedbackFields } from './feedback-address.ts';
import { type HostMemory, peerKey } from './hosts.ts';
import type { StreamedContent } from './large.ts';
import { classify, type Evidence } from './outcome.ts';
import {
  asConnectionLimit,
  type Clocked,
  classifyPass,
  conclude,
  dialogueOf,
  goesOn,
  later,
  learn,
  mayReturn,
  type Pass,
  putBackRefused,
  type RecipientOutcome,
  restAfter,
  signalOfDoor,
  signalOfPass,
  weigh,
} from './pass.ts';
import { hasShareLeft, isFit, type PooledSession, type SessionNeed } from './pooled-session.ts';
import type { ReturnPaths } from './return-path.ts';
import { isRelay } from './route.ts';
import type { AttemptFacts } from './settle.ts';
import type { DayShares } from './warm-up.ts';

/** Hosts that are given the message in one attempt, and sessions with all of their addresses together. */
const MAX_HOSTS = 3;
const MAX_SESSIONS = 6;
/** An attempt that has taken so long ends with what it has: the next one goes on. */
const MAX_BEFORE_NEXT_MS = 900_000;

export interface Transmission {
  /** The session to go on with, if it is still good. */
  pooled: PooledSession | undefined;
  results: RecipientOutcome[];
  /** What the peer said of itself, for all that waits for it. */
  signal: Signal;
}

export interface TransmitOptions {
  group: Held[];
  destination: string;
  pooled: PooledSession | undefined;
  prepared: Prepared;
  connections: Connections;
  hosts: HostMemory;
  hostname: string;
  returnPaths: ReturnPaths;
  now(): number;
  /** Whether the leases of all recipients hold: no transaction begins without them, and no final dot is written. */
  holds(): boolean;
  /** Whether a transaction may begin on a session that was just opened. */
  mayBegin(): boolean;
  /** Called as soon as a session is used, so that a deadline can cut it. */
  onSession(pooled: PooledSession): void;
  /** Called with the recipients that are done while others go on to the next exchanger. */
  onDone(results: RecipientOutcome[]): void;
  /** What a domain that does not exist means for this mail; other evidence stays as it is. */
  weighMissing(evidence: Evidence): Promise<Evidence>;
  /** The peer has taken an envelope: it is not one of those that fall silent. */
  onEnvelope(): void;
  /** What is left of the shares of today, while our addresses warm up. */
  shares?: DayShares | undefined;
}

function stopwatch(now: () => number): () => Clocked {
  const startedAtMs = now();
  const start = performance.now();
  return () => ({ startedAtMs, durationMs: Math.round(performance.now() - start) });
}

const EMPTY = { host: null, address: null, tls: null, tlsFallback: null, dialogue: [] };
const NO_HOSTS: ReadonlySet<string> = new Set();
const NOTHING: Signal = { kind: 'nothing' };

/** All are put back, and the session is as it was. */
export function nothingSent(
  { group }: Pick<TransmitOptions, 'group'>,
  pooled: PooledSession | undefined,
): Transmission {
  const results = group.map((held) => ({ held, kind: 'again' as const }));
  return { pooled, results, signal: NOTHING };
}

/** The email itself cannot be sent. */
function unprepared(options: TransmitOptions, evidence: Omit<Evidence, 'relay'>, clocked: Clocked): Transmission {
  const outcome = classify({ ...evidence, relay: isRelay(options.destination) });
  const facts = { ...EMPTY, ...clocked };
  const results = options.group.map((held) => ({ held, kind: 'classified' as const, outcome, facts }));
  return { pooled: options.pooled, results, signal: NOTHING };
}

/** Sessions at the destination, where one of them is with the hosts that did not open one more; else none. */
function observedBy({ connections, destination, group }: TransmitOptions): number {
  return connections.count(destination, group[0]!.domain) > 0 ? connections.count(destination) : 0;
}

function notOpened(options: TransmitOptions, opened: NotOpened, clocked: Clocked): Transmission {
  const outcome = classify(opened.evidence);
  const { cause } = opened.evidence;
  const isAgain = (held: Held): boolean => cause === 'ECANCELLED' || (cause === ELSEWHERE && mayReturn(held));
  const signal = opened.isPassedOver ? NOTHING : signalOfDoor(opened, outcome, observedBy(options));
  const facts = { ...opened.facts, ...clocked };
  const results = options.group.map(
    (held): RecipientOutcome =>
      isAgain(held) ? { held, kind: 'again' } : { held, kind: 'classified', outcome, facts },
  );
  const kept = putBackRefused(signal, results);
  return { pooled: undefined, results: kept.map((one) => goingOn(one, opened)), signal };
}

/** Goes on at the next destination, where there is one. */
function goingOn(
  one: RecipientOutcome,
  { onward, isPassedOver }: Pick<NotOpened, 'onward' | 'isPassedOver'>,
  given = 0,
): RecipientOutcome {
  if (!onward || one.kind !== 'classified') return one;
  const { held } = one;
  const { outcome, facts } = conclude(one);
  const before = isPassedOver ? held.onward?.before : { outcome, facts };
  const hosts = hostsOf(held) + given;
  return { held, kind: 'onward', to: onward.to, onward: { ...held.onward, rest: onward.rest, hosts, before } };
}

function hostsOf({ onward }: Held): number {
  return onward?.hosts ?? 0;
}

/** Nothing more leaves today: all of them are put back, and wait as they do for any destination that is paused. */
function shareSpent({ group }: TransmitOptions, shares: DayShares): Transmission {
  const { ms, outcome } = shares.untilTomorrow();
  const signal: Signal = { kind: 'wait', request: { ms }, refusal: { outcome, host: null } };
  return { ...nothingSent({ group }, undefined), signal };
}

/** Those for whom something is left of the address that this session leaves from; the others stay in the queue. */
async function takeShare(shares: DayShares | undefined, pooled: PooledSession, pending: Held[]): Promise<Held[]> {
  const leaving = (await shares?.take(pooled.session.sourceAddress, pending.length)) ?? pending.length;
  return leaving === pending.length ? pending : pending.slice(0, leaving);
}

/** Of those that were put off, or not even tried, before the final dot. */
function returnShare(
  shares: DayShares | undefined,
  { pooled, sent }: Pass,
  results: readonly RecipientOutcome[],
): void {
  if (!shares) return;
  const isUnsent = (one: RecipientOutcome, index: number): boolean =>
    (one.kind !== 'classified' || one.outcome.kind === 'temporary') && sent.recipients[index]!.stage !== 'dot';
  shares.giveBack(pooled.session.sourceAddress, results.filter(isUnsent).length);
}

/** Streamed content with its head; read from the beginning each time it is sent. */
function behind(head: Buffer, content: StreamedContent, onRead: () => void): SmtpContent {
  return {
    async *[Symbol.asyncIterator]() {
      onRead();
      yield head;
      yield* content.read();
    },
  };
}

async function sendingOf(
  { group, hostname, returnPaths, holds, onEnvelope }: TransmitOptions,
  prepared: Prepared & { ok: true },
): Promise<Sending> {
  const { job } = group[0]!;
  const received = receivedField(job, hostname);
  const mailFrom = returnPaths.of(job, { isShared: group.length > 1, ownDomain: prepared.ownReturnPath });
  const fields = feedbackFields(mailFrom, prepared.feedbackDomain);
  const signed = await prepared.sign(fields);
  const head = Buffer.from(`${received}${signed}`, 'latin1');
  const { content } = prepared;
  const message: SmtpMessage = {
    mailFrom,
    recipients: group.map((held) => held.job.recipient),
    content: Buffer.isBuffer(content) ? [head, content] : behind(head, content, onEnvelope),
    sizeBytes: head.length + (Buffer.isBuffer(content) ? content.length : content.sizeBytes),
    smtpUtf8: job.options.smtpUtf8,
    eightBit: job.options.eightBit,
    requireTls: job.options.requireTls,
    mayEnd: () => {
      onEnvelope();
      return holds();
    },
  };
  return { message, prepared, received, fields, headBytes: head.length };
}

function sendingTo(group: readonly Held[], sending: Sending): Sending {
  return { ...sending, message: { ...sending.message, recipients: group.map((held) => held.job.recipient) } };
}

/** The session that the slot brought along, where it will do. */
function reusable({ pooled, connections }: TransmitOptions, need: SessionNeed): PooledSession | undefined {
  if (!pooled) return undefined;
  const isFor = connections.isFor(pooled, need.domain) && isFit(pooled, need);
  if (pooled.session.usable && hasShareLeft(pooled) && isFor) return pooled;
  void connections.release(pooled);
  return undefined;
}

/** The session for the next message; one that will not do for it is closed. */
function keepIfGood({ connections }: TransmitOptions, pooled: PooledSession): PooledSession | undefined {
  if (pooled.session.usable && !pooled.spare) return pooled;
  void connections.release(pooled);
  return undefined;
}

/** Addresses at which one of these messages failed after its final dot. */
function avoidedBy({ group, hosts }: TransmitOptions): ReadonlySet<string> {
  const retried = group.filter((held) => held.job.attempts > 0);
  if (retried.length === 0) return NO_HOSTS;
  return new Set(
    retried.flatMap(({ job }) => {
      const peer = hosts.dotFailedAt(job.messageId);
      return peer ? [peerKey(peer)] : [];
    }),
  );
}

async function needOf(options: TransmitOptions, { message }: Sending): Promise<SessionNeed> {
  const { group, connections, shares } = options;
  const { domain, job } = group[0]!;
  return {
    ...{ domain, tls: message.requireTls ?? false, avoid: avoidedBy(options) },
    asks: await connections.asksOf(domain, job.options.tlsOptional === true),
    ...{ attempts: Math.max(...group.map((held) => held.job.attempts)), emailSeq: job.emailSeq },
    onward: onwardOf(group),
    ...(shares && { mayLeaveFrom: shares.hasRoom }),
  };
}

/** Of those whose attempt began elsewhere: of several who has least left. */
function onwardOf(group: readonly Held[]): Onward | undefined {
  const all = group.flatMap(({ onward }) => onward ?? []);
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

/** A session with an exchanger behind this one, for those who go on, or the destination of one; undefined where there is none. */
async function nextExchanger(
  { destination, connections }: TransmitOptions,
  next: Next,
): Promise<PooledSession | Pick<NotOpened, 'onward'> | undefined> {
  const { pooled, need, going, hosts, sessions, durationMs } = next;
  if (going.length === 0 || sessions >= MAX_SESSIONS) return undefined;
  const beforeMs = Math.max(0, ...going.map(({ onward }) => onward?.before?.facts.durationMs ?? 0));
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

/**
 * Exchanger after exchanger, until all recipients have an outcome that stands: those that one took or refused for good are done, the
 * others go on. Never rejects because of a peer.
 */
export async function transmit(options: TransmitOptions): Promise<Transmission> {
  const { group, destination, prepared, connections } = options;
  const elapsed = stopwatch(options.now);
  if (!prepared.ok) return unprepared(options, prepared.evidence, elapsed());
  const sending = await sendingOf(options, prepared);
  const { shares } = options;
  await shares?.prepare(group.length);
  const need = await needOf(options, sending);

  const outcomes = new Map<Held, RecipientOutcome>();
  let pending = group;
  let earlier: AttemptFacts['dialogue'] = [];
  let signal: Signal = { kind: 'nothing' };
  let pooled = reusable(options, need) ?? connections.take(destination, need);
  let hosts = 1;
  for (let sessions = 1; ; sessions += 1) {
    if (!pooled) {
      const opened = await connections.open(destination, need);
      if (!opened.ok) {
        if (opened.noSource && shares) return shareSpent(options, shares);
        const evidence = await options.weighMissing(opened.evidence);
        return notOpened(options, { ...opened, evidence }, elapsed());
      }
      pooled = opened.pooled;
    }
    // Later passes are held back at the dot: what an exchanger took is recorded in any case.
    if (sessions === 1 && !options.mayBegin()) return nothingSent(options, pooled);
    options.onSession(pooled);
    pending = await takeShare(shares, pooled, pending);
    if (pending.length === 0 && sessions === 1) return nothingSent(options, pooled);
    if (pending.length === 0) {
      void connections.release(pooled);
      return { pooled: undefined, results: [...outcomes.values()], signal };
    }
    const reused = pooled.used > 0;
    pooled.used += 1;
    const sent = await sendFitting(pooled.session, pending === group ? sending : sendingTo(pending, sending));
    const pass: Pass = { pooled, sent, reused, earlier, clocked: elapsed() };
    learn(options.hosts, pass, pending);
    const classified = classifyPass({ group: pending, destination }, pass);
    const said = asConnectionLimit(signalOfPass(pass, classified), pass, connections);
    signal = later(signal, said);
    const results = putBackRefused(said, classified);
    returnShare(shares, pass, results);
    for (const result of results) outcomes.set(result.held, weigh(outcomes.get(result.held), result));
    const going = pending.filter((_, index) => goesOn(results[index]!, sent.recipients[index]!));
    if (going.length > 0) options.onDone(results.filter((one) => !going.includes(one.held)));
    pooled.rest = restAfter(
      pass,
      results.filter(({ held }) => going.includes(held)),
    );
    const { durationMs } = pass.clocked;
    const next = await nextExchanger(options, { pooled, need, hosts, sessions, going, durationMs });
    if (!next || !('session' in next)) {
      const goOn = (one: RecipientOutcome): RecipientOutcome =>
        next && going.includes(one.held) ? goingOn(one, { onward: next.onward }, hosts) : one;
      return { pooled: keepIfGood(options, pooled), results: [...outcomes.values()].map(goOn), signal };
    }
    earlier = dialogueOf(pass);
    pending = going;
    void connections.release(pooled);
    if (next.session.remoteHost !== pooled.session.remoteHost) hosts += 1;
    pooled = next;
  }
}

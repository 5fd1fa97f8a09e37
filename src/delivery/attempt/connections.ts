/**
 * Keeps sessions open per destination and reuses them. A session can be idle for up to 10 s and carries a limited number of messages. It
 * serves the domain that it was opened for, and other domains of the same destination if its host is among their best MX hosts. So the
 * backup MX of one domain, or a host that a provider assigned to one customer, never receives another domain's mail. A session that the
 * peer closes while idle is dropped. A message uses a session only if its TLS meets the requirements of the message (hosts.ts).
 *
 * New sessions are opened host by host, and address by address of each host, until one greets, whatever earlier ones replied (RFC 5321
 * §5.1).
 */
import { POLICY_UNMET } from '../../net/error-sentence.ts';
import type { OpenSmtpOptions, SmtpError, SmtpSession, TlsNeed } from '../../net/smtp-client.ts';
import { limitsOf } from '../../net/smtp-limits.ts';
import type { Limits } from '../destinations/limits.ts';
import type { Registry } from '../destinations/registry.ts';
import { type Evidence, outweighs } from '../outcome/outcome.ts';
import { type CandidateDeps, chooseCandidates, NO_FACTS, type OpenFailure, without } from '../routing/candidates.ts';
import { dial, tlsPolicyName } from '../routing/hosts.ts';
import type { MxSets } from '../routing/mx-sets.ts';
import { type Candidate, isRelay, type Routing } from '../routing/route.ts';
import {
  ANY,
  ClosingSessions,
  hasShareLeft,
  IdleSessions,
  isFit,
  type PooledSession,
  peerOf,
  type SessionNeed,
} from './pooled-session.ts';

const IDLE_MS = 10_000;
/** An attempt ends after it has connected to this many servers and none of them opened a session. */
const MAX_GREETED = 10;
/** Timeout of each envelope command (RFC 5321 §4.5.3.2). A destination that stalled last time gets one fifth of it. */
const ENVELOPE_MS = 300_000;
const STALLED_PART = 1 / 5;

export type Opened = { ok: true; pooled: PooledSession } | OpenFailure;

export interface Connections {
  /**
   * Returns the TLS policies that a session for mail to this domain must have been opened under: none, the domain's current policy, or any
   * if the message ignores policies (RFC 8689 §5).
   */
  asksOf(domain: string, tlsOptional: boolean): Promise<string>;
  take(destination: string, need: SessionNeed): PooledSession | undefined;
  /**
   * Looks up the domain and opens a session with one of the MX hosts that belong to this destination. If `after` is set, tries only hosts
   * after that session's host that have not failed recently. Fails with the cause ELSEWHERE if the domain turns out to have another
   * destination, whose limits and pauses apply.
   */
  open(destination: string, need: SessionNeed, after?: PooledSession): Promise<Opened>;
  /** Keeps the session for the next message, or closes it after its last one and resolves when it is closed. */
  release(pooled: PooledSession): Promise<void>;
  destroy(pooled: PooledSession): void;
  /** Counts open sessions with a destination, including idle ones; with `domain`, only those for this domain. */
  count(destination: string, domain?: string): number;
  /** Returns whether this session can carry the mail of a domain. */
  isFor(pooled: PooledSession, domain: string): boolean;
  readonly total: number;
  /** Closes sessions that have been idle too long. */
  sweep(): void;
  /** Cancels connections that are being opened, with the cause ECANCELLED, and refuses to open more. */
  cancelOpening(): void;
  /** Closes every session that has not sent the final dot of its message. */
  cutBeforeDots(): void;
  destroyAll(): void;
  quitAll(): Promise<void>;
}

export interface ConnectionOptions extends CandidateDeps {
  sets: Pick<MxSets, 'destinationOf' | 'destinationAt' | 'serves'>;
  registry: Pick<Registry, 'pauseOf' | 'isStalled' | 'spareConnections'>;
  limits: Pick<Limits, 'messagesPerConnection'>;
  /** The host name for EHLO. */
  helo: string;
  timeouts?: OpenSmtpOptions['timeouts'];
}

function evidenceOf(error: SmtpError, relay: boolean): Evidence {
  const { stage, reply, cause, local, message } = error;
  return {
    stage,
    message,
    relay,
    ...(reply ? { reply } : {}),
    ...(cause === undefined ? {} : { cause }),
    ...(local ? { local } : {}),
  };
}

function timeoutsFor(
  destination: string,
  { timeouts = {}, registry }: ConnectionOptions,
): NonNullable<OpenSmtpOptions['timeouts']> {
  if (!registry.isStalled(destination)) return timeouts;
  return { ...timeouts, envelopeMs: (timeouts.envelopeMs ?? ENVELOPE_MS) * STALLED_PART };
}

/** Returns after how many messages the session is closed. */
function mostMessagesOf({ hosts, limits }: ConnectionOptions, session: SmtpSession, destination: string): number {
  if (!hosts.mayReuse(peerOf({ session }))) return 1;
  return Math.min(limits.messagesPerConnection(destination), limitsOf(session.extensions).mailMax);
}

export function openConnections(options: ConnectionOptions): Connections {
  const { hosts } = options;
  const idle = new IdleSessions();
  const counts = new Map<string, number>();
  const all = new Set<PooledSession>();
  const opening = new AbortController();
  const closing = new ClosingSessions();

  const adopt = (
    session: SmtpSession,
    destination: string,
    opened: Pick<PooledSession, 'domain' | 'candidate' | 'rest' | 'spare' | 'asks' | 'tlsPolicy'>,
  ): PooledSession => {
    const mostMessages = mostMessagesOf(options, session, destination);
    const pooled: PooledSession = { session, destination, mostMessages, ...opened, used: 0, idleSince: 0 };
    all.add(pooled);
    counts.set(destination, (counts.get(destination) ?? 0) + 1);
    session.onClose(() => {
      all.delete(pooled);
      const left = (counts.get(destination) ?? 1) - 1;
      if (left === 0) counts.delete(destination);
      else counts.set(destination, left);
      idle.remove(pooled);
    });
    return pooled;
  };

  const openOne = async (candidate: Candidate, destination: string, need: SessionNeed): ReturnType<typeof dial> => {
    const timeouts = timeoutsFor(destination, options);
    const { helo, routing } = options;
    const sourceFor = (address: string): string | undefined => routing.sources.nextFor(address, need.maySendFrom);
    const dialOptions = { hosts, need: need.tls, helo, signal: opening.signal, timeouts, sourceFor };
    const opened = await dial(candidate, dialOptions);
    if (!opened.ok && isAboutHost(opened.error)) {
      hosts.failed(candidate.host, triedIn(candidate, opened.error), candidate.allAddresses);
    }
    return opened;
  };

  const isFor = ({ domain, session }: PooledSession, requested: string): boolean =>
    domain === requested || options.sets.serves(requested, session.remoteHost);

  return {
    isFor,
    asksOf: (domain, tlsOptional) => (tlsOptional ? Promise.resolve(ANY) : asksOf(options.routing, domain)),
    take: (destination, need) => idle.take(destination, (pooled) => isFor(pooled, need.domain) && isFit(pooled, need)),
    open: async (destination, need, after) => {
      const relay = isRelay(destination);
      if (!after)
        await closing.makeRoom(destination, {
          idle,
          most: Math.max(0, options.registry.spareConnections(destination)),
        });
      const chosen = await chooseCandidates(options, { destination, need, after });
      if (!chosen.ok) return chosen;
      const { here, hostsAfter, nextDestination } = chosen;
      let failure: Pick<OpenFailure, 'evidence' | 'facts'> | undefined;
      let forNeed = false;
      const untried = [...here];
      let greeted = 0;
      for (let candidate = untried.shift(); candidate; candidate = untried.shift()) {
        if (opening.signal.aborted || greeted === MAX_GREETED) break;
        const opened = await openOne(candidate, destination, need);
        if (opened.ok) {
          const { remoteAddress } = opened.session;
          const others = without(candidate, (address) => address === remoteAddress);
          const pooled = adopt(opened.session, destination, {
            domain: need.domain,
            candidate,
            rest: [...(others ? [others] : []), ...hostsAfter(candidate)],
            spare: after !== undefined,
            asks: need.asks ?? ANY,
            tlsPolicy: tlsPolicyName(candidate.policy, need.tls),
          });
          return { ok: true, pooled };
        }
        const { error } = opened;
        if (error.stage !== 'connect') greeted += 1;
        const tried = triedIn(candidate, error);
        const others = without(candidate, (address) => tried.includes(address));
        if (others) untried.unshift(others);
        forNeed ||= isAboutNeed(error, need);
        const facts = factsOf(candidate, error, need.tls);
        if (!failure || outweighs(error, failure.evidence)) failure = { evidence: evidenceOf(error, relay), facts };
      }
      if (!failure || opening.signal.aborted) return { ok: false, ...cancelled(relay), forNeed };
      return { ok: false, ...failure, forNeed, nextDestination };
    },
    release: async (pooled) => {
      if (!pooled.session.usable) return;
      if (pooled.spare || !hasShareLeft(pooled) || opening.signal.aborted) {
        await closing.quit(pooled);
        return;
      }
      idle.add(pooled);
    },
    destroy: (pooled) => pooled.session.destroy(),
    count: (destination, domain) => {
      if (domain === undefined) return counts.get(destination) ?? 0;
      return [...all].filter((pooled) => pooled.destination === destination && isFor(pooled, domain)).length;
    },
    get total() {
      return all.size;
    },
    sweep: () => {
      for (const pooled of idle.takeBefore(performance.now() - IDLE_MS)) void closing.quit(pooled);
    },
    cancelOpening: () => opening.abort(),
    cutBeforeDots: () => {
      for (const pooled of [...all]) pooled.session.cutBeforeDot();
    },
    destroyAll: () => {
      for (const pooled of [...all]) pooled.session.destroy();
    },
    quitAll: async () => {
      await Promise.all(idle.takeBefore(Number.POSITIVE_INFINITY).map((pooled) => pooled.session.quit()));
    },
  };
}

async function asksOf({ policies }: Routing, domain: string): Promise<string> {
  const policy = isRelay(domain) ? undefined : await policies?.ofDomain(domain);
  return policy?.isAsking ? `${domain} ${policy.version}` : '';
}

function cancelled(relay: boolean) {
  const message = 'the attempt was cancelled';
  return { evidence: { stage: 'connect' as const, cause: 'ECANCELLED', message, relay }, facts: NO_FACTS };
}

/** Returns whether opening failed because of a requirement that the message, or the recipient's domain, has for the connection. */
function isAboutNeed({ stage, cause }: SmtpError, need: SessionNeed): boolean {
  return cause === POLICY_UNMET || (need.tls !== false && (stage === 'starttls' || stage === 'tls'));
}

function factsOf({ host, policy }: Candidate, error: SmtpError, need: TlsNeed) {
  return {
    host,
    address: error.remoteAddress ?? null,
    sourceAddress: error.sourceAddress,
    tls: error.tlsVersion ?? null,
    tlsPolicy: tlsPolicyName(policy, need),
    tlsCipher: error.tlsCipher,
    tlsKeyExchange: error.tlsKeyExchange,
    tlsPeerName: error.tlsPeerName,
    dialogue: error.dialogue,
  };
}

/** Returns the addresses that an error applies to: the one that replied, or all of them if none accepted a connection. */
function triedIn({ addresses }: Candidate, { stage, remoteAddress }: SmtpError): readonly string[] {
  return stage === 'connect' || remoteAddress === undefined ? addresses : [remoteAddress];
}

/** Returns whether an error means that the host failed, rather than this machine or a requirement of the message. */
function isAboutHost({ stage, cause, reply, local }: SmtpError): boolean {
  if (local || cause === 'ECANCELLED' || cause === 'EADDRNOTAVAIL') return false;
  return stage === 'connect' || stage === 'banner' || stage === 'ehlo' || reply?.code === 421;
}

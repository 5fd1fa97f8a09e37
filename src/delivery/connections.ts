/**
 * Open sessions, kept per destination and used again: idle for at most ten seconds, for at most so many messages. A session serves
 * the domain that it was opened for, and others of the same destination where its host is among their best exchangers: a backup
 * exchanger of one domain, or the host that a provider gave to one customer, is never handed the mail of another. Also
 * opens new ones: exchangers one after the other until one greets us, whatever the others said at the door (RFC 5321 §5.1).
 * A session that the peer closes while it is idle is simply gone. A message gets a session only if its TLS is what the message
 * asks for (hosts.ts).
 */
import type { OpenSmtpOptions, SmtpError, SmtpSession, TlsNeed } from '../net/smtp-client.ts';
import { POLICY_UNMET } from '../tls-policy/tls-policy.ts';
import { dial, type HostMemory, satisfies, type TlsPolicyName, tlsPolicyName } from './hosts.ts';
import { type Evidence, outweighs } from './outcome.ts';
import type { AttemptFacts } from './results.ts';
import { type Candidate, isRelay, type Resolved, type Routing, resolveRoute } from './route.ts';

const IDLE_MS = 10_000;
/** RFC 5321 §4.5.3.2; a fifth of it for a destination that fell silent the last time. */
const ENVELOPE_MS = 300_000;
const STALLED_PART = 1 / 5;

export interface PooledSession {
  session: SmtpSession;
  destination: string;
  /** The domain it was opened for. */
  domain: string;
  /** Messages after which it is closed. */
  mostMessages: number;
  /** Exchangers that come after this one. */
  rest: Candidate[];
  /** Opened for mail that a better exchanger did not take: closed afterwards, so that other mail is not led past the better one. */
  spare: boolean;
  /** The policies on TLS that it was opened under, see `asksOf`. */
  asks: string;
  tlsPolicy: TlsPolicyName;
  /** Messages that were begun on it. */
  used: number;
  /** Monotonic ms since which it is idle. */
  idleSince: number;
}

/** What a message asks of the session it goes over. */
export interface SessionNeed {
  /** Whose exchangers it goes to; the destination itself behind a relay. */
  domain: string;
  tls: TlsNeed;
  /** What `asksOf` answered for the recipient's domain; left out by those who look again when they know it. */
  asks?: string;
  /** Hosts that come after all others. */
  avoid: ReadonlySet<string>;
  /** Attempts that were made before. */
  attempts: number;
  /** Whether mail may leave from this address now (undefined: from the system's choice): all may unless this says otherwise. */
  mayLeaveFrom?: (source: string | undefined) => boolean;
}

export type Opened =
  | { ok: true; pooled: PooledSession }
  | {
      ok: false;
      evidence: Evidence;
      facts: Omit<AttemptFacts, 'startedAtMs' | 'durationMs'>;
      /** Mail that asks for less of its connection may well get one. */
      forNeed: boolean;
      /** No address may be used that mail could leave from: nothing was dialled. */
      noSource?: boolean;
    };

export interface Connections {
  /**
   * Which policies on TLS a session for mail to this domain must have been opened under: none, the domain's own as they are now, or, where
   * the mail asks that none counts (RFC 8689 §5), any.
   */
  asksOf(domain: string, tlsOptional: boolean): Promise<string>;
  /** An idle session with this destination. */
  take(destination: string, need: SessionNeed): PooledSession | undefined;
  /**
   * Looks the domain up and opens a session; with `after` at one of the exchangers behind that one that have not failed lately. With the cause
   * ELSEWHERE where the domain turns out to have another destination, whose limits and pauses count.
   */
  open(destination: string, need: SessionNeed, after?: PooledSession): Promise<Opened>;
  /** Back for the next message; closed instead when it has done its share. Resolves when the peer has one connection less. */
  release(pooled: PooledSession): Promise<void>;
  destroy(pooled: PooledSession): void;
  /** Open sessions with a destination, idle ones included; with `domain` those that are for this domain. */
  count(destination: string, domain?: string): number;
  /** Whether the mail of a domain may go over this session. */
  isFor(pooled: PooledSession, domain: string): boolean;
  readonly total: number;
  /** Closes what has been idle too long. */
  sweep(): void;
  /** Ends what is being opened, with the cause ECANCELLED, and refuses to open more. */
  cancelOpening(): void;
  /** Cuts every session that is in the middle of a message and has not sent its final dot. */
  cutBeforeDots(): void;
  /** Cuts every session. */
  destroyAll(): void;
  /** QUIT to every idle session. */
  quitAll(): Promise<void>;
}

export interface ConnectionOptions {
  routing: Routing;
  hosts: HostMemory;
  helo: string;
  timeouts?: OpenSmtpOptions['timeouts'];
  /** Whether the destination fell silent in its last envelope. */
  isStalled(destination: string): boolean;
  /** Whether a host is among the best exchangers of a domain. */
  serves(domain: string, host: string): boolean;
  /** The destination of a domain by the last answer of the DNS. */
  destinationOf(domain: string): string;
  /** Idle sessions for which the destination has room beside those in use. */
  roomForIdle(destination: string): number;
  /** Messages that a session with this destination may take. */
  messagesPerConnection(destination: string): number;
}

/** Cause: the domain counts for another destination than the one that was asked for. */
export const ELSEWHERE = 'ELSEWHERE';
/** Of mail for which no policy counts, and of the sessions opened for it. */
const ANY = '*';

const NO_FACTS = { host: null, address: null, tls: null, tlsFallback: null, dialogue: [] };

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
  { timeouts = {}, isStalled }: ConnectionOptions,
): NonNullable<OpenSmtpOptions['timeouts']> {
  if (!isStalled(destination)) return timeouts;
  return { ...timeouts, envelopeMs: (timeouts.envelopeMs ?? ENVELOPE_MS) * STALLED_PART };
}

/** Sessions that wait for their next message, by destination. */
class IdleSessions {
  readonly #byDestination = new Map<string, PooledSession[]>();

  add(pooled: PooledSession): void {
    pooled.idleSince = performance.now();
    const waiting = this.#byDestination.get(pooled.destination);
    if (waiting) waiting.push(pooled);
    else this.#byDestination.set(pooled.destination, [pooled]);
  }

  remove(pooled: PooledSession): void {
    const waiting = this.#byDestination.get(pooled.destination) ?? [];
    const at = waiting.indexOf(pooled);
    if (at !== -1) waiting.splice(at, 1);
    if (waiting.length === 0) this.#byDestination.delete(pooled.destination);
  }

  /** The youngest that fits. */
  take(destination: string, isWanted: (pooled: PooledSession) => boolean): PooledSession | undefined {
    const found = this.#byDestination.get(destination)?.findLast(isWanted);
    if (found) this.remove(found);
    return found;
  }

  /** The oldest, where there are more than so many. */
  takeBeyond(destination: string, most: number): PooledSession | undefined {
    const waiting = this.#byDestination.get(destination) ?? [];
    const [oldest] = waiting.length > most ? waiting : [];
    if (oldest) this.remove(oldest);
    return oldest;
  }

  /** Those that came before this monotonic time. */
  takeBefore(sinceMs: number): PooledSession[] {
    const taken = [...this.#byDestination.values()].flat().filter(({ idleSince }) => idleSince < sinceMs);
    for (const pooled of taken) this.remove(pooled);
    return taken;
  }
}

/** Sessions that say QUIT: the peer still counts them. */
class ClosingSessions {
  readonly #all = new Map<PooledSession, Promise<void>>();

  quit(pooled: PooledSession): Promise<void> {
    const done = pooled.session.quit().finally(() => this.#all.delete(pooled));
    this.#all.set(pooled, done);
    return done;
  }

  /**
   * The peer is not to have more connections than it may because none of the idle ones would do, or because one is not closed yet: it
   * would refuse one dial after the other, up to two seconds long.
   */
  async makeRoom(destination: string, { idle, most }: { idle: IdleSessions; most: number }): Promise<void> {
    const oldest = idle.takeBeyond(destination, most);
    if (oldest) await this.quit(oldest);
    const ending = [...this.#all].flatMap(([pooled, done]) => (pooled.destination === destination ? [done] : []));
    if (ending.length > most) await Promise.all(ending);
  }
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
    opened: Pick<PooledSession, 'domain' | 'rest' | 'spare' | 'asks' | 'tlsPolicy'>,
  ): PooledSession => {
    const mostMessages = options.messagesPerConnection(destination);
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
    const sourceFor = (address: string): string | undefined => routing.sources.nextFor(address, need.mayLeaveFrom);
    const dialling = { hosts, need: need.tls, helo, signal: opening.signal, timeouts, sourceFor };
    const opened = await dial(candidate, dialling);
    if (!opened.ok && isAboutHost(opened.error)) hosts.failed(candidate.host);
    return opened;
  };

  const isFor = ({ domain, session }: PooledSession, asked: string): boolean =>
    domain === asked || options.serves(asked, session.remoteHost);

  const resolve = async (
    { domain, asks, avoid, attempts }: SessionNeed,
    after: PooledSession | undefined,
  ): Promise<Resolved> => {
    // Mail that a server put off does not go on to one that has just refused us, or is away.
    const isWell = ({ host }: Candidate): boolean => host !== after?.session.remoteHost && !hosts.goesLast(host);
    if (after?.domain === domain) return { ok: true, candidates: after.rest.filter(isWell) };
    const goesLast = (host: string): boolean => avoid.has(host) || hosts.goesLast(host);
    const routing = asks === ANY ? { ...options.routing, policies: undefined } : options.routing;
    const resolved = await resolveRoute(routing, domain, { goesLast, attempts });
    if (!resolved.ok || !after) return resolved;
    return { ok: true, candidates: resolved.candidates.filter(isWell) };
  };

  return {
    isFor,
    asksOf: (domain, tlsOptional) => (tlsOptional ? Promise.resolve(ANY) : asksOf(options.routing, domain)),
    take: (destination, need) => idle.take(destination, (pooled) => isFor(pooled, need.domain) && isFit(pooled, need)),
    open: async (destination, need, after) => {
      const relay = isRelay(destination);
      if (!after) await closing.makeRoom(destination, { idle, most: Math.max(0, options.roomForIdle(destination)) });
      const resolved = await resolve(need, after);
      if (!resolved.ok) return notResolved(resolved.evidence);
      if (!relay && options.destinationOf(need.domain) !== destination) return elsewhere(need.domain);
      const candidates = reachable(resolved.candidates, need, options.routing);
      if (candidates.length === 0 && resolved.candidates.length > 0) return { ok: false, ...NO_SOURCE };
      let failure: Pick<Opened & { ok: false }, 'evidence' | 'facts'> | undefined;
      let forNeed = false;
      for (const [index, candidate] of candidates.entries()) {
        if (opening.signal.aborted) break;
        const opened = await openOne(candidate, destination, need);
        if (opened.ok) {
          const rest = candidates.slice(index + 1);
          const asked = { asks: need.asks ?? ANY, tlsPolicy: tlsPolicyName(candidate.policy, need.tls) };
          const { domain } = need;
          const spare = after !== undefined;
          return { ok: true, pooled: adopt(opened.session, destination, { domain, rest, spare, ...asked }) };
        }
        const { error } = opened;
        forNeed ||= isAboutNeed(error, need);
        const facts = factsOf(candidate, error, need.tls);
        if (!failure || outweighs(error, failure.evidence)) failure = { evidence: evidenceOf(error, relay), facts };
      }
      return { ok: false, ...(failure && !opening.signal.aborted ? failure : cancelled(relay)), forNeed };
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

const NO_SOURCE = {
  evidence: { stage: 'connect' as const, cause: 'EADDRNOTAVAIL', relay: false },
  ...{ facts: NO_FACTS, forNeed: false, noSource: true },
};

/** Those with an address that one of ours may be used for, with these addresses alone. */
function reachable(candidates: Candidate[], { mayLeaveFrom }: SessionNeed, { sources }: Routing): Candidate[] {
  if (!mayLeaveFrom) return candidates;
  return candidates
    .map((one) => ({ ...one, addresses: one.addresses.filter((address) => sources.hasOneFor(address, mayLeaveFrom)) }))
    .filter(({ addresses }) => addresses.length > 0);
}

function cancelled(relay: boolean) {
  const message = 'the attempt was cancelled';
  return { evidence: { stage: 'connect' as const, cause: 'ECANCELLED', message, relay }, facts: NO_FACTS };
}

/** Says nothing of those that wait for the destination. */
function elsewhere(domain: string): Opened {
  const message = `the mail exchangers of ${domain} changed while they were looked up`;
  return {
    ...{ ok: false, evidence: { stage: 'dns', cause: ELSEWHERE, message, relay: false } },
    ...{ facts: NO_FACTS, forNeed: true },
  };
}

function notResolved(evidence: Evidence): Opened {
  return { ok: false, evidence, facts: NO_FACTS, forNeed: evidence.cause === POLICY_UNMET };
}

/** Whether it was refused for what the mail, or the recipient's domain, asks of the connection. */
function isAboutNeed({ stage, cause }: SmtpError, need: SessionNeed): boolean {
  return cause === POLICY_UNMET || (need.tls !== false && (stage === 'starttls' || stage === 'tls'));
}

function factsOf({ host, policy }: Candidate, error: SmtpError, need: TlsNeed) {
  return {
    host,
    address: error.remoteAddress ?? null,
    sourceAddress: error.sourceAddress,
    tls: error.tlsVersion ?? null,
    tlsFallback: null,
    tlsPolicy: tlsPolicyName(policy, need),
    tlsCipher: error.tlsCipher ?? null,
    tlsPeerName: error.tlsPeerName ?? null,
    dialogue: error.dialogue,
  };
}

/** Whether a message may go over this session. */
export function isFit(pooled: PooledSession, need: SessionNeed): boolean {
  const isUnderPolicy = need.asks === undefined || need.asks === ANY || need.asks === pooled.asks;
  const mayLeave = need.mayLeaveFrom?.(pooled.session.sourceAddress) ?? true;
  return isUnderPolicy && mayLeave && satisfies(pooled.session, need.tls) && !need.avoid.has(pooled.session.remoteHost);
}

/** Whether a failed opening says something about the host, and not about what was asked of it. */
function isAboutHost({ stage, cause, reply, local }: SmtpError): boolean {
  if (local || cause === 'ECANCELLED' || cause === 'EADDRNOTAVAIL') return false;
  return stage === 'connect' || stage === 'banner' || stage === 'ehlo' || reply?.code === 421;
}

/** Whether a session has messages left before it is closed. */
export function hasShareLeft(pooled: PooledSession): boolean {
  return pooled.used < pooled.mostMessages;
}

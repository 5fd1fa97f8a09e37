/**
 * Open sessions, kept per destination and used again: idle for at most ten seconds, for at most so many messages. Also
 * opens new ones: exchangers one after the other until one greets us, whatever the others said at the door (RFC 5321 §5.1).
 * A session that the peer closes while it is idle is simply gone. A message gets a session only if its TLS is what the message
 * asks for (dial.ts).
 */
import type { OpenSmtpOptions, SmtpError, SmtpSession, TlsNeed } from '../net/smtp-client.ts';
import { dial, satisfies } from './dial.ts';
import type { HostMemory } from './host-memory.ts';
import type { Evidence } from './outcome.ts';
import { type Candidate, RELAY, type Routing, resolveRoute } from './route.ts';
import type { AttemptFacts } from './settlement.ts';

const IDLE_MS = 10_000;
const MAX_MESSAGES_PER_RELAY_SESSION = 1_000;
const MAX_MESSAGES_PER_MX_SESSION = 100;
/** RFC 5321 §4.5.3.2; a fifth of it for a destination that fell silent the last time. */
const ENVELOPE_MS = 300_000;
const STALLED_PART = 1 / 5;

export interface Line {
  session: SmtpSession;
  destination: string;
  /** Exchangers that come after this one. */
  rest: Candidate[];
  /** Opened for mail that a better exchanger did not take: closed afterwards, so that other mail is not led past the better one. */
  spare: boolean;
  /** Messages that were begun on it. */
  used: number;
  /** Monotonic ms since which it is idle. */
  idleSince: number;
}

/** What a message asks of the session it goes over. */
export interface Wanted {
  tls: TlsNeed;
  /** Hosts that come after all others. */
  avoid: ReadonlySet<string>;
}

export type Opened =
  | { ok: true; line: Line }
  | {
      ok: false;
      evidence: Evidence;
      facts: Pick<AttemptFacts, 'host' | 'address' | 'tls' | 'tlsFallback' | 'dialogue'>;
      /** Mail that asks for less of its connection may well get one. */
      forNeed: boolean;
    };

export interface Connections {
  /** An idle session with this destination. */
  take(destination: string, wanted: Wanted): Line | undefined;
  /** Looks the destination up and opens a session; or tries only the candidates given. */
  open(destination: string, wanted: Wanted, candidates?: Candidate[]): Promise<Opened>;
  /** Back for the next message; closed instead when it has done its share. Resolves when the peer has one connection less. */
  release(line: Line): Promise<void>;
  destroy(line: Line): void;
  /** Open sessions with a destination, idle ones included. */
  count(destination: string): number;
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

export function openConnections(options: ConnectionOptions): Connections {
  const { hosts } = options;
  const idle = new Map<string, Line[]>();
  const counts = new Map<string, number>();
  const lines = new Set<Line>();
  const opening = new AbortController();

  const adopt = (session: SmtpSession, destination: string, { rest, spare }: Pick<Line, 'rest' | 'spare'>): Line => {
    const line: Line = { session, destination, rest, spare, used: 0, idleSince: 0 };
    lines.add(line);
    counts.set(destination, (counts.get(destination) ?? 0) + 1);
    session.onClose(() => {
      lines.delete(line);
      const left = (counts.get(destination) ?? 1) - 1;
      if (left === 0) counts.delete(destination);
      else counts.set(destination, left);
      const waiting = idle.get(destination);
      const at = waiting?.indexOf(line) ?? -1;
      if (waiting && at !== -1) waiting.splice(at, 1);
      if (waiting?.length === 0) idle.delete(destination);
    });
    return line;
  };

  const timeoutsFor = (destination: string): NonNullable<OpenSmtpOptions['timeouts']> => {
    const { timeouts = {} } = options;
    if (!options.isStalled(destination)) return timeouts;
    return { ...timeouts, envelopeMs: (timeouts.envelopeMs ?? ENVELOPE_MS) * STALLED_PART };
  };

  const openOne = async (candidate: Candidate, destination: string, need: TlsNeed): ReturnType<typeof dial> => {
    const timeouts = timeoutsFor(destination);
    const opened = await dial(candidate, { hosts, need, helo: options.helo, signal: opening.signal, timeouts });
    if (!opened.ok && isAboutHost(opened.error)) hosts.failed(candidate.host);
    return opened;
  };

  return {
    take: (destination, wanted) => {
      const waiting = idle.get(destination);
      const at = waiting?.findLastIndex((line) => isFit(line, wanted)) ?? -1;
      if (!waiting || at === -1) return undefined;
      const [line] = waiting.splice(at, 1);
      if (waiting.length === 0) idle.delete(destination);
      return line;
    },
    open: async (destination, wanted, only) => {
      const relay = destination === RELAY;
      const none = { host: null, address: null, tls: null, tlsFallback: null, dialogue: [] };
      let candidates = only;
      if (!candidates) {
        const goesLast = (host: string): boolean => wanted.avoid.has(host) || hosts.goesLast(host);
        const resolved = await resolveRoute(options.routing, destination, goesLast);
        if (!resolved.ok) return { ok: false, evidence: resolved.evidence, facts: none, forNeed: false };
        candidates = resolved.candidates;
      }
      let failure: Pick<Opened & { ok: false }, 'evidence' | 'facts'> | undefined;
      let forNeed = false;
      for (const [index, candidate] of candidates.entries()) {
        if (opening.signal.aborted) break;
        const opened = await openOne(candidate, destination, wanted.tls);
        if (opened.ok) {
          const rest = candidates.slice(index + 1);
          return { ok: true, line: adopt(opened.session, destination, { rest, spare: only !== undefined }) };
        }
        const { error } = opened;
        forNeed ||= wanted.tls !== false && (error.stage === 'starttls' || error.stage === 'tls');
        const facts = {
          host: candidate.host,
          address: error.remoteAddress ?? null,
          tls: error.tlsVersion ?? null,
          tlsFallback: null,
          dialogue: error.dialogue,
        };
        // An exchanger that may recover weighs more than one that refuses for good.
        const permanent = (error.reply?.code ?? error.local?.code ?? 0) >= 500;
        if (!failure || !permanent) failure = { evidence: evidenceOf(error, relay), facts };
      }
      const cancelled = { stage: 'connect' as const, cause: 'ECANCELLED', message: 'the attempt was cancelled', relay };
      const reason = failure && !opening.signal.aborted ? failure : { evidence: cancelled, facts: none };
      return { ok: false, ...reason, forNeed };
    },
    release: async (line) => {
      if (!line.session.usable) return;
      if (line.spare || !hasShareLeft(line) || opening.signal.aborted) {
        await line.session.quit();
        return;
      }
      line.idleSince = performance.now();
      const waiting = idle.get(line.destination);
      if (waiting) waiting.push(line);
      else idle.set(line.destination, [line]);
    },
    destroy: (line) => line.session.destroy(),
    count: (destination) => counts.get(destination) ?? 0,
    get total() {
      return lines.size;
    },
    sweep: () => {
      const before = performance.now() - IDLE_MS;
      for (const [destination, waiting] of idle) {
        const stale = waiting.filter((line) => line.idleSince < before);
        if (stale.length === 0) continue;
        const fresh = waiting.filter((line) => line.idleSince >= before);
        if (fresh.length === 0) idle.delete(destination);
        else idle.set(destination, fresh);
        for (const line of stale) void line.session.quit();
      }
    },
    cancelOpening: () => opening.abort(),
    cutBeforeDots: () => {
      for (const line of [...lines]) line.session.cutBeforeDot();
    },
    destroyAll: () => {
      for (const line of [...lines]) line.session.destroy();
    },
    quitAll: async () => {
      const all = [...idle.values()].flat();
      idle.clear();
      await Promise.all(all.map((line) => line.session.quit()));
    },
  };
}

/** Whether a message may go over this session. */
export function isFit(line: Line, wanted: Wanted): boolean {
  return satisfies(line.session, wanted.tls) && !wanted.avoid.has(line.session.remoteHost);
}

/** Whether a failed opening says something about the host, and not about what was asked of it. */
function isAboutHost({ stage, cause, reply, local }: SmtpError): boolean {
  if (local || cause === 'ECANCELLED') return false;
  return stage === 'connect' || stage === 'banner' || stage === 'ehlo' || reply?.code === 421;
}

/** Whether a session has messages left before it is closed. */
export function hasShareLeft(line: Line): boolean {
  return line.used < (line.destination === RELAY ? MAX_MESSAGES_PER_RELAY_SESSION : MAX_MESSAGES_PER_MX_SESSION);
}

/** A session that is kept for the next message, what a message requires of a session, and the sets of idle and closing sessions. */
import type { SmtpSession, TlsNeed } from '../../net/smtp-client.ts';
import type { Detour } from '../queue/delivery-item.ts';
import { peerKey, satisfies, type TlsPolicyName } from '../routing/hosts.ts';
import type { Candidate } from '../routing/route.ts';

/** For mail that ignores TLS policies, and for the sessions opened for it. */
export const ANY = '*';

export interface PooledSession {
  session: SmtpSession;
  destination: string;
  /** The domain that the session was opened for. */
  domain: string;
  /** Messages after which the session is closed. */
  mostMessages: number;
  candidate: Candidate;
  /** The addresses that an attempt tries after this session: the others of its host, then those of the hosts after it. */
  readonly rest: readonly Candidate[];
  /** Opened for mail that a better MX host did not accept: closed afterwards, so that other mail does not bypass the better host. */
  spare: boolean;
  /** The TLS policies that the session was opened under, see `asksOf`. */
  asks: string;
  tlsPolicy: TlsPolicyName;
  /** Messages started on the session. */
  used: number;
  /** Monotonic ms since the session became idle. */
  idleSince: number;
}

export interface SessionNeed {
  /** The domain whose MX hosts receive the message; with a relay, the destination itself. */
  domain: string;
  tls: TlsNeed;
  /** The result of `asksOf` for the recipient's domain; omitted by callers that check again once they know it. */
  asks?: string;
  /** Addresses to try last, by `peerKey`. */
  avoid: ReadonlySet<string>;
  /** Number of earlier attempts. */
  attempts: number;
  emailSeq: number;
  /** If the attempt comes from its domain's own destination: the MX hosts it has not tried, if known. */
  detour?: Pick<Detour, 'rest'> | undefined;
  /** Whether mail may be sent from this local address now (undefined: chosen by the system); all are allowed by default. */
  maySendFrom?: (source: string | undefined) => boolean;
}

/** Whether a message may go over this session. */
export function isFit(pooled: PooledSession, need: SessionNeed): boolean {
  const isUnderPolicy = need.asks === undefined || need.asks === ANY || need.asks === pooled.asks;
  const maySend = need.maySendFrom?.(pooled.session.sourceAddress) ?? true;
  return isUnderPolicy && maySend && satisfies(pooled.session, need.tls) && !need.avoid.has(peerKey(peerOf(pooled)));
}

/** The address at the other end of a session. */
export function peerOf({ session }: Pick<PooledSession, 'session'>): { host: string; address: string } {
  return { host: session.remoteHost, address: session.remoteAddress };
}

/** Whether a session has messages left before it is closed. */
export function hasShareLeft(pooled: PooledSession): boolean {
  return pooled.used < pooled.mostMessages;
}

export class IdleSessions {
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

  /** Takes the most recently used session that fits. */
  take(destination: string, isWanted: (pooled: PooledSession) => boolean): PooledSession | undefined {
    const found = this.#byDestination.get(destination)?.findLast(isWanted);
    if (found) this.remove(found);
    return found;
  }

  /** Takes the oldest session if there are more than `most`. */
  takeBeyond(destination: string, most: number): PooledSession | undefined {
    const waiting = this.#byDestination.get(destination) ?? [];
    const [oldest] = waiting.length > most ? waiting : [];
    if (oldest) this.remove(oldest);
    return oldest;
  }

  /** Takes the sessions that became idle before this monotonic time. */
  takeBefore(sinceMs: number): PooledSession[] {
    const taken = [...this.#byDestination.values()].flat().filter(({ idleSince }) => idleSince < sinceMs);
    for (const pooled of taken) this.remove(pooled);
    return taken;
  }
}

/** Sessions that are sending QUIT: the peer still counts them. */
export class ClosingSessions {
  readonly #all = new Map<PooledSession, Promise<void>>();

  quit(pooled: PooledSession): Promise<void> {
    const done = pooled.session.quit().finally(() => this.#all.delete(pooled));
    this.#all.set(pooled, done);
    return done;
  }

  /**
   * Frees a connection if the peer's limit is reached because no idle session fits, or because one is still closing: otherwise the peer
   * would refuse each new connection for up to 2 s.
   */
  async makeRoom(destination: string, { idle, most }: { idle: IdleSessions; most: number }): Promise<void> {
    const oldest = idle.takeBeyond(destination, most);
    if (oldest) await this.quit(oldest);
    const ending = [...this.#all].flatMap(([pooled, done]) => (pooled.destination === destination ? [done] : []));
    if (ending.length > most) await Promise.all(ending);
  }
}

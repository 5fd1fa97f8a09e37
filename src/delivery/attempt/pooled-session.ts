/**
 * A session that is kept for the next message, what a message asks of one, and where those are that wait for their next message or say
 * QUIT.
 */
import type { SmtpSession, TlsNeed } from '../../net/smtp-client.ts';
import type { Detour } from '../queue/held.ts';
import { peerKey, satisfies, type TlsPolicyName } from '../routing/hosts.ts';
import type { Candidate } from '../routing/route.ts';

/** Of mail for which no policy counts, and of the sessions opened for it. */
export const ANY = '*';

export interface PooledSession {
  session: SmtpSession;
  destination: string;
  /** The domain it was opened for. */
  domain: string;
  /** Messages after which it is closed. */
  mostMessages: number;
  /** The host that it was opened with. */
  candidate: Candidate;
  /** What an attempt tries after this session: the other addresses of its host, then the hosts after it. */
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
  /** Addresses that come after all others, by `peerKey`. */
  avoid: ReadonlySet<string>;
  /** Attempts that were made before. */
  attempts: number;
  /** The number of the email. */
  emailSeq: number;
  /** Where the attempt has come from its domain's own destination: the exchangers that it has not been at, where they are known. */
  detour?: Pick<Detour, 'rest'> | undefined;
  /** Whether mail may leave from this address now (undefined: from the system's choice): all may unless this says otherwise. */
  mayLeaveFrom?: (source: string | undefined) => boolean;
}

/** Whether a message may go over this session. */
export function isFit(pooled: PooledSession, need: SessionNeed): boolean {
  const isUnderPolicy = need.asks === undefined || need.asks === ANY || need.asks === pooled.asks;
  const mayLeave = need.mayLeaveFrom?.(pooled.session.sourceAddress) ?? true;
  return isUnderPolicy && mayLeave && satisfies(pooled.session, need.tls) && !need.avoid.has(peerKey(peerOf(pooled)));
}

/** The address at the other end of a session. */
export function peerOf({ session }: Pick<PooledSession, 'session'>): { host: string; address: string } {
  return { host: session.remoteHost, address: session.remoteAddress };
}

/** Whether a session has messages left before it is closed. */
export function hasShareLeft(pooled: PooledSession): boolean {
  return pooled.used < pooled.mostMessages;
}

/** Sessions that wait for their next message, by destination. */
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
export class ClosingSessions {
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

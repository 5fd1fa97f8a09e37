/**
 * The database server of a simulated world: sessions over the simulated network, each with what PostgreSQL keeps for a session, before
 * one engine that runs one transaction at a time.
 *
 *   idle ──BEGIN──▶ begun ──a statement──▶ waiting ──the engine is free──▶ in transaction ──COMMIT, ROLLBACK, its end──▶ idle
 *                                             └──lock_timeout──▶ aborted (25P02 until its end)
 *
 * A transaction holds the whole database, where a real one would hold rows: a session that waits longer than its lock_timeout is refused as
 * by a real server. If the holder was well meanwhile, that is a fault of ours, and reported. Of a session are its process id, the names of
 * its prepared statements, its timeouts and whether it listens; other settings are the same for all, since every session sets them alike.
 */
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import type { Absence } from './absences.ts';
import type { Link, Network } from './network.ts';
import { int32, type Message, message, messagesOf, type PostgresEngine } from './postgres-engine.ts';
import { type Backend, Session } from './postgres-session.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export const DATABASE_ADDRESS = '10.0.0.5';
const AT = `${DATABASE_ADDRESS}:5432`;
export const DATABASE_URL = parsePostgresUrl(`postgres://postrider@${DATABASE_ADDRESS}/postrider`);

export interface ServerFaults {
  /** Of commits: that their sync takes long. */
  stalls: number;
}

export interface ServerOptions {
  engine: PostgresEngine;
  network: Network;
  random: Random;
  faults: ServerFaults;
  count(what: string): void;
  /** What must not happen. */
  onFault(what: string): void;
}

/** Nobody who is well holds a transaction for so long. */
const WELL_MS = 4_500;
/** From the end of an outage until the nodes have written down what they hold. */
const WRITTEN_DOWN_MS = 45_000;

/** The way to the server: short, and faultless unless given faults. */
export function databaseLink(random: Random, faults: Partial<Link> = {}): Link {
  return {
    latencyMs: () => (random.chance(0.005) ? random.between(5, 200) : random.between(0.05, 0.6)),
    faults: { resets: 0, silences: 0, blackHoles: 0 },
    fateWithinBytes: 100_000,
    isCutOff: () => false,
    ...faults,
  };
}

export class PostgresServer implements Backend {
  readonly #options: ServerOptions;
  readonly timeline: Timeline;
  readonly sessions = new Set<Session>();
  /** Whose transaction the engine is in. */
  #holder: Session | undefined;
  #heldSinceMs = 0;
  readonly #waiting: Session[] = [];
  #nextPid = 1_000;
  #upAtMs = 0;
  readonly outages: Absence[] = [];

  constructor(options: ServerOptions) {
    this.#options = options;
    this.timeline = options.network.timeline;
    this.#listen();
  }

  #listen(): void {
    const { network } = this.#options;
    network.listen(AT, (socket) => {
      this.#nextPid += 1;
      this.sessions.add(new Session(this, { socket, pid: this.#nextPid }));
    });
  }

  /** Whether nothing is under way, so that the engine may be asked by the simulation. */
  get isFree(): boolean {
    return this.#holder === undefined;
  }

  get isDown(): boolean {
    return this.timeline.nowMs < this.#upAtMs;
  }

  /** Since when a node may hold what it could not write down: now, unless it was away just now. */
  get writtenToMs(): number {
    const { nowMs } = this.timeline;
    const recent = this.outages.filter(({ untilMs }) => nowMs < untilMs + WRITTEN_DOWN_MS);
    return Math.min(nowMs, ...recent.map(({ fromMs }) => fromMs));
  }

  /** A crash of the server: what is not committed is gone, and it is away for a while. */
  crash(downMs: number): void {
    for (const session of [...this.sessions]) session.reset();
    const { network } = this.#options;
    const { nowMs } = this.timeline;
    this.outages.push({ fromMs: nowMs, untilMs: nowMs + downMs });
    this.#upAtMs = Math.max(this.#upAtMs, nowMs + downMs);
    network.close(AT, this.timeline.world);
    const up = (): void => {
      if (this.isDown) return;
      network.close(AT, this.timeline.world);
      this.#listen();
    };
    this.timeline.after(downMs, 'database up', up, this.timeline.world);
  }

  /** Calls `onHeld` once the session has the engine; the session keeps it until `release`. */
  acquire(session: Session): void {
    if (this.#holder === session) session.held();
    else {
      this.#waiting.push(session);
      this.#next();
    }
  }

  /** A session that does not want the engine any more. */
  forget(session: Session): void {
    const at = this.#waiting.indexOf(session);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  release(session: Session): void {
    if (this.#holder !== session) return;
    this.#holder = undefined;
    this.#next();
  }

  #next(): void {
    if (this.#holder !== undefined) return;
    this.#holder = this.#waiting.shift();
    this.#heldSinceMs = this.timeline.nowMs;
    this.#holder?.held();
  }

  /** Runs messages of the holder; what it notifies others of goes to those who listen. */
  exec(session: Session, bytes: Buffer): Message[] {
    const { messages } = messagesOf(this.#options.engine.exec(bytes));
    for (const one of messages) if (one.type === 'A') this.#notify(session, one.body);
    return messages.filter(({ type }) => type !== 'A');
  }

  #notify(from: Session, body: Buffer): void {
    const said = message('A', int32(from.pid), body.subarray(4));
    for (const session of this.sessions) if (session.isListening) session.send(said);
  }

  /** How long the server is over something. */
  tookMs(isCommit: boolean): number {
    const { random, faults, count } = this.#options;
    if (!isCommit) return random.between(0.02, 0.5);
    if (!random.chance(faults.stalls)) return random.between(0.2, 4);
    count('a commit that took long');
    return random.between(50, 3_000);
  }

  /** A session waited for longer than a lock may be waited for. */
  waitedInVain(): void {
    const { count, onFault } = this.#options;
    count('a lock waited for in vain');
    const isLong = this.timeline.nowMs - this.#heldSinceMs > WELL_MS;
    if (isLong && this.#holder?.isWell) onFault('a transaction held the database longer than others wait');
  }
}

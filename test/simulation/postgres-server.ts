/**
 * The database server of a simulated world: sessions over the simulated network, each with the session state of PostgreSQL, and one engine
 * that runs one transaction at a time.
 *
 *   idle ──BEGIN──▶ begun ──a statement──▶ waiting ──the engine is free──▶ in transaction ──COMMIT, ROLLBACK, its end──▶ idle
 *                                             └──lock_timeout──▶ aborted (25P02 until its end)
 *
 * A transaction locks the entire database instead of rows: a session that waits longer than its lock_timeout is refused as by a real
 * server. If the holder was healthy in the meantime, this is reported as a failure of the product. The state of a session is its process id,
 * the names of its prepared statements, its timeouts and whether it listens; other settings are shared, since all sessions set them alike.
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
  /** Share of commits with a slow sync. */
  stalls: number;
}

export interface ServerOptions {
  engine: PostgresEngine;
  network: Network;
  random: Random;
  faults: ServerFaults;
  count(what: string): void;
  /** Called with each violation. */
  onFault(what: string): void;
}

/** No healthy client holds a transaction for this long. */
const WELL_MS = 4_500;
/** From the end of an outage until the nodes have written their results. */
const WRITTEN_DOWN_MS = 45_000;

/** The connection to the server: fast, and without faults by default. */
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
  /** The session whose transaction the engine runs. */
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

  /** Whether no transaction is running, so that the simulation may query the engine. */
  get isFree(): boolean {
    return this.#holder === undefined;
  }

  get isDown(): boolean {
    return this.timeline.nowMs < this.#upAtMs;
  }

  /** Since when a node may hold results that it could not write: now, unless the server was just unavailable. */
  get writtenToMs(): number {
    const { nowMs } = this.timeline;
    const recent = this.outages.filter(({ untilMs }) => nowMs < untilMs + WRITTEN_DOWN_MS);
    return Math.min(nowMs, ...recent.map(({ fromMs }) => fromMs));
  }

  /** Crashes the server: uncommitted changes are lost, and it is unavailable for a while. */
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

  /** The session no longer wants the engine. */
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

  /** Runs messages of the holder; its notifications are sent to listening sessions. */
  exec(session: Session, bytes: Buffer): Message[] {
    const { messages } = messagesOf(this.#options.engine.exec(bytes));
    for (const one of messages) if (one.type === 'A') this.#notify(session, one.body);
    return messages.filter(({ type }) => type !== 'A');
  }

  #notify(from: Session, body: Buffer): void {
    const said = message('A', int32(from.pid), body.subarray(4));
    for (const session of this.sessions) if (session.isListening) session.send(said);
  }

  /** Returns how long the server takes. */
  tookMs(isCommit: boolean): number {
    const { random, faults, count } = this.#options;
    if (!isCommit) return random.between(0.02, 0.5);
    if (!random.chance(faults.stalls)) return random.between(0.2, 4);
    count('a commit that took long');
    return random.between(50, 3_000);
  }

  /** A session waited longer than its lock timeout. */
  waitedInVain(): void {
    const { count, onFault } = this.#options;
    count('a lock waited for in vain');
    const isLong = this.timeline.nowMs - this.#heldSinceMs > WELL_MS;
    if (isLong && this.#holder?.isWell) onFault('a transaction held the database longer than others wait');
  }
}

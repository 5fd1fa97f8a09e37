/**
 * The database server of a scenario: sessions over the simulated network, each with the session state of PostgreSQL, and one engine
 * that runs one transaction at a time.
 *
 *   idle ──BEGIN──▶ begun ──a statement──▶ waiting ──the engine is free──▶ in transaction ──COMMIT, ROLLBACK, its end──▶ idle
 *                                             └──lock_timeout──▶ aborted (25P02 until its end)
 *
 * A transaction locks the entire database instead of rows: a session that waits longer than its lock_timeout is refused as by a real
 * server. If the holder was healthy in the meantime, this is reported as a failure of the product. The state of a session is its process id,
 * the names of its prepared statements, its timeouts and whether it listens; other settings are shared, since all sessions set them alike.
 */
import { DatabaseServer, type ServerOptions } from './database-server.ts';
import type { SimSocket } from './network.ts';
import type { PostgresEngine } from './postgres-engine.ts';
import { int32, type Message, message, messagesOf } from './postgres-protocol.ts';
import { type Backend, Session } from './postgres-session.ts';

/** No healthy client holds a transaction for this long. */
const WELL_MS = 4_500;
export class PostgresServer extends DatabaseServer implements Backend {
  readonly #engine: PostgresEngine;
  readonly sessions = new Set<Session>();
  /** The session whose transaction the engine runs. */
  #holder: Session | undefined;
  #heldSinceMs = 0;
  readonly #waiting: Session[] = [];
  #nextPid = 1_000;

  constructor(engine: PostgresEngine, options: ServerOptions) {
    super(options);
    this.#engine = engine;
  }

  protected override accept(socket: SimSocket): void {
    this.#nextPid += 1;
    this.sessions.add(new Session(this, { socket, pid: this.#nextPid }));
  }

  override get isFree(): boolean {
    return this.#holder === undefined;
  }

  override endSessions(): void {
    for (const session of [...this.sessions]) session.reset();
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
    const { messages } = messagesOf(this.#engine.exec(bytes));
    for (const one of messages) if (one.type === 'A') this.#notify(session, one.body);
    return messages.filter(({ type }) => type !== 'A');
  }

  #notify(from: Session, body: Buffer): void {
    const said = message('A', int32(from.pid), body.subarray(4));
    for (const session of this.sessions) if (session.isListening) session.send(said);
  }

  /** A session waited longer than its lock timeout. */
  waitedInVain(): void {
    const { count, onFault } = this.options;
    count('lock timeout');
    const isLong = this.timeline.nowMs - this.#heldSinceMs > WELL_MS;
    if (isLong && this.#holder?.isWell) onFault('a transaction held the database longer than others wait');
  }
}

/**
 * A database server of a scenario whose transactions overlap: each session of the simulated network has a backend of a real
 * PostgreSQL server (overlapping-engine.ts). One statement runs at a time, and the seed decides whose it is; a statement that needs a lock
 * of another transaction waits, and continues once it has the lock. Row locks, snapshots, unique keys and advisory locks are the real ones.
 *
 * Time is simulated: the server measures its timeouts here, and looks for deadlocks after a second as PostgreSQL does. The statement that
 * a timeout or a deadlock ends is really cancelled; its error gets the SQLSTATE of the reason.
 *
 * Commits are synchronous: a commit is answered, and visible to others, once the standby has it. So a failover loses transactions whose
 * COMMIT was not answered, keeps others whose answer was lost, and starts another timeline.
 */
import { DatabaseServer, type ServerOptions } from './database-server.ts';
import type { SimSocket } from './network.ts';
import type { OverlappingEngine } from './overlapping-engine.ts';
import { OverlappingSession } from './overlapping-session.ts';
import type { Progress } from './overlapping-thread.ts';
import { int32, message } from './postgres-protocol.ts';

/** Share of statements that take long. */
const SLOW = 0.03;

export class OverlappingServer extends DatabaseServer {
  readonly #engine: OverlappingEngine;
  /** Sessions with a backend, including those whose client is gone. */
  readonly #sessions = new Set<OverlappingSession>();
  /** Those whose statement waits for a lock. */
  readonly #waiting = new Map<number, OverlappingSession>();
  #nextPid = 1_000;
  /** Called after each commit. */
  onCommit: () => void = () => undefined;

  constructor(engine: OverlappingEngine, options: ServerOptions) {
    super(options);
    this.#engine = engine;
  }

  protected override accept(socket: SimSocket): void {
    this.#nextPid += 1;
    const session = new OverlappingSession(this, { socket, pid: this.#nextPid });
    this.#engine.connect(session.pid);
    this.#sessions.add(session);
  }

  override get isFree(): boolean {
    return ![...this.#sessions].some((one) => one.isBusy);
  }

  override endSessions(): void {
    this.#abandon();
    this.#engine.crash();
  }

  /** Ends the server; its standby is the primary after a while. */
  failOver(downMs: number): void {
    this.options.count('failover');
    this.#abandon();
    const reached = this.#engine.writtenTo();
    super.crash(downMs);
    this.#engine.promote(reached);
  }

  #abandon(): void {
    for (const session of this.#sessions) session.abandon();
    this.#sessions.clear();
    this.#waiting.clear();
  }

  override tookMs(isCommit: boolean): number {
    const { random } = this.options;
    return !isCommit && random.chance(SLOW) ? random.between(1, 60) : super.tookMs(isCommit);
  }

  /** Whether a server that loses a client still runs the statements that it has received. */
  drawRunsOn(): boolean {
    return this.options.random.chance(0.5);
  }

  /** Runs a request. */
  exec(session: OverlappingSession, bytes: Buffer): void {
    this.#setTime();
    this.#progressed(session, this.#engine.exec(session.pid, bytes));
    this.#settle();
  }

  /** Cancels the statement of a session that waits. */
  cancel(session: OverlappingSession): Progress {
    this.#waiting.delete(session.pid);
    return this.#engine.cancel(session.pid);
  }

  /** The session's locks may be free. */
  settled(): void {
    this.#settle();
  }

  /** Ends a backend, and its transaction. */
  end(session: OverlappingSession): void {
    if (!this.#sessions.delete(session)) return;
    this.#engine.end(session.pid);
    this.#settle();
  }

  notify(from: OverlappingSession, { channel, payload }: { channel: string; payload: string }): void {
    const said = message('A', int32(from.pid), channel, payload);
    for (const session of this.#sessions) if (session.isListening) session.send(said);
  }

  /** Whether the session waits for itself, by way of others. The product locks in one order, so it never should. */
  isDeadlocked(session: OverlappingSession): boolean {
    const waiting = new Map(this.#engine.waiting().map(({ id, by }) => [id, by]));
    const seen = new Set<number>();
    const next = [...(waiting.get(session.pid) ?? [])];
    for (let id = next.pop(); id !== undefined; id = next.pop()) {
      if (id === session.pid) {
        const texts = [session.pid, ...seen].map((one) => this.#waiting.get(one)?.text);
        this.options.onFault(`a deadlock: ${[...new Set(texts)].join(' / ')}`);
        return true;
      }
      if (seen.has(id)) continue;
      seen.add(id);
      next.push(...(waiting.get(id) ?? []));
    }
    return false;
  }

  count(what: string): void {
    this.options.count(what);
  }

  #setTime(): void {
    this.#engine.setTime(this.timeline.as(this.timeline.world, () => Date.now()));
  }

  #progressed(session: OverlappingSession, progress: Progress): void {
    if (progress.state === 'waiting') this.#waiting.set(session.pid, session);
    session.progressed(progress);
  }

  /** Continues sessions whose lock was granted, one after another in an order that the seed decides. */
  #settle(): void {
    while (this.#waiting.size > 0) {
      const waiting = new Set(this.#engine.waiting().map(({ id }) => id));
      const granted = [...this.#waiting.values()].filter(({ pid }) => !waiting.has(pid));
      if (granted.length === 0) return;
      const session = this.options.random.pick(granted);
      this.#waiting.delete(session.pid);
      this.#setTime();
      this.#progressed(session, this.#engine.resume(session.pid));
    }
  }
}

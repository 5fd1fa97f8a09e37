/**
 * A bounded number of connections to one PostgreSQL server, and whether the server is usable. A failure never ends the process.
 *
 *   ready ──a connection cannot be opened──▶ not ready (with the reason): waiting and new callers are refused immediately
 *     ▲ └──a connection is lost──▶ ready, probed immediately                  │
 *     └───────────────────────────a probe connects─────────────────────────────┘ (every PROBE_PAUSE_MS)
 *
 * With several hosts, a transaction without an end for SILENT_MS makes the pool look at the other hosts: a host that lost power closes no
 * connection. If another host accepts writes, the connections to the old one are closed.
 *
 *   a connection:  opening ──▶ idle ◀──acquire, release──▶ in use ──broken──▶ closed
 *                               └──IDLE_CLOSE_MS, broken──▶ closed
 */
import { Unavailable } from '../../base/failure.ts';
import type { Log } from '../../base/log.ts';
import type { DatabaseState, PoolState } from '../database.ts';
import { connectElsewhere, connectForOperations, type PostgresConnection } from './connection.ts';
import { UnsuitableServer } from './errors.ts';
import { type PostgresAddress, type PostgresHost, shownAddress, shownHost } from './url.ts';

const PROBE_PAUSE_MS = 250;
/** How long a caller waits for a connection. */
const WAIT_MS = 10_000;
/** Idle connections are closed after this, so that quiet nodes leave connections to others. */
const IDLE_CLOSE_MS = 60_000;
const SILENT_MS = 5_000;

interface Waiting {
  resolve(connection: PostgresConnection): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

interface Idle {
  connection: PostgresConnection;
  timer: NodeJS.Timeout;
}

export interface PoolOptions {
  address: PostgresAddress;
  log: Log;
  size: number;
  /** SILENT_MS by default. */
  silentMs?: number | undefined;
  onOpen(connection: PostgresConnection): void;
}

export class PostgresPool {
  readonly #options: PoolOptions;
  #idle: Idle[] = [];
  /** Since when each connection is in use, by performance.now(). */
  readonly #inUse = new Map<PostgresConnection, number>();
  #waiting: Waiting[] = [];
  /** Connections that are open or opening. */
  #open = 0;
  #opening = 0;
  #state: DatabaseState = { ready: true };
  /** By performance.now(): since when no connection in use was lost and none was refused. */
  #wholeSinceMs = performance.now();
  #probing: Promise<void> | undefined;
  #endPause: (() => void) | undefined;
  #closing = false;
  #watching: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    if (options.address.hosts.length === 1) return;
    const silentMs = options.silentMs ?? SILENT_MS;
    this.#watching = setInterval(() => void this.#findSilent(silentMs), silentMs / 2).unref();
  }

  state(): DatabaseState {
    return this.#state.ready ? { ready: true, readyForMs: performance.now() - this.#wholeSinceMs } : this.#state;
  }

  counts(): PoolState {
    const idle = this.#idle.length;
    return { max: this.#options.size, inUse: this.#open - idle, idle, waiting: this.#waiting.length };
  }

  /** Returns a connection for the caller's exclusive use, to be released; rejects with Unavailable if there is none. */
  acquire(): Promise<PostgresConnection> {
    return new Promise((resolve, reject) => {
      if (this.#closing) reject(new Unavailable('the database is closed', 'OVERLOADED'));
      else if (!this.#state.ready) reject(new Unavailable(this.#state.reason ?? 'the database cannot be reached'));
      else {
        const timer = setTimeout(() => {
          this.#waiting = this.#waiting.filter((one) => one.timer !== timer);
          reject(new Unavailable('all connections to the database are busy', 'OVERLOADED'));
        }, WAIT_MS);
        this.#waiting.push({ resolve, reject, timer });
        this.#serve();
      }
    });
  }

  release(connection: PostgresConnection): void {
    this.#inUse.delete(connection);
    if (connection.broken !== undefined) {
      this.#wholeSinceMs = performance.now();
      this.#drop(connection);
    } else this.#keep(connection);
    this.#serve();
  }

  /** Closes idle connections; those in use are closed on release. */
  close(): void {
    this.#closing = true;
    clearInterval(this.#watching);
    this.#endPause?.();
    this.#refuse('the database is closed');
    for (const { connection, timer } of this.#idle.splice(0)) {
      clearTimeout(timer);
      this.#end(connection);
    }
  }

  /** Gives connections to waiting callers, and opens more up to the limit. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      const idle = this.#idle.pop();
      if (!idle) break;
      clearTimeout(idle.timer);
      if (idle.connection.broken !== undefined) this.#drop(idle.connection);
      else this.#hand(idle.connection);
    }
    while (this.#opening < this.#waiting.length && this.#open < this.#options.size && this.#state.ready) this.#grow();
  }

  #grow(): void {
    this.#open += 1;
    this.#opening += 1;
    const opening = connectForOperations(this.#options.address).finally(() => {
      this.#opening -= 1;
    });
    opening.then(
      (connection) => this.#adopt(connection),
      (error: Error) => {
        this.#open -= 1;
        this.#fail(error);
      },
    );
  }

  #adopt(connection: PostgresConnection): void {
    this.#options.onOpen(connection);
    connection.client.on('end', () => this.#lost(connection));
    this.#keep(connection);
    this.#serve();
  }

  #hand(connection: PostgresConnection): void {
    const next = this.#waiting.shift() as Waiting;
    clearTimeout(next.timer);
    this.#inUse.set(connection, performance.now());
    next.resolve(connection);
  }

  #keep(connection: PostgresConnection): void {
    if (this.#closing) {
      this.#end(connection);
      return;
    }
    const timer = setTimeout(() => {
      this.#idle = this.#idle.filter((one) => one.connection !== connection);
      this.#end(connection);
    }, IDLE_CLOSE_MS);
    timer.unref();
    this.#idle.push({ connection, timer });
  }

  /** Closes a working connection. */
  #end(connection: PostgresConnection): void {
    this.#open -= 1;
    connection.client.end().catch(() => undefined);
  }

  /** Closes a lost connection and probes the server. */
  #drop(connection: PostgresConnection): void {
    this.#open -= 1;
    connection.destroy();
    this.#probe();
  }

  /** Handles an idle connection that ends; one in use is handled on release. */
  #lost(connection: PostgresConnection): void {
    const at = this.#idle.findIndex((one) => one.connection === connection);
    if (at === -1) return;
    clearTimeout(this.#idle[at]!.timer);
    this.#idle.splice(at, 1);
    this.#drop(connection);
  }

  /** Refuses all callers until a probe connects. */
  #fail(error: Error): void {
    if (this.#closing) return;
    const where = shownAddress(this.#options.address);
    if (this.#state.ready) this.#options.log.error({ where, error: error.message }, 'database not ready');
    // The public reason only says where the cause is.
    const isAnswer = (error as { severity?: string }).severity !== undefined || error instanceof UnsuitableServer;
    const reason = isAnswer ? 'the database cannot be used' : 'the database cannot be reached';
    this.#state = { ready: false, reason };
    this.#refuse(`${reason}: ${where}: ${error.message}`);
    this.#probe();
  }

  #refuse(reason: string): void {
    for (const one of this.#waiting.splice(0)) {
      clearTimeout(one.timer);
      one.reject(new Unavailable(reason));
    }
  }

  /** Looks for another primary if a transaction takes long; its host may be silent. */
  async #findSilent(silentMs: number): Promise<void> {
    const latest = performance.now() - silentMs;
    const silent = [...this.#inUse].find(([, sinceMs]) => sinceMs < latest)?.[0];
    if (silent === undefined || this.#isLooking || this.#closing) return;
    this.#isLooking = true;
    const found = await connectElsewhere(this.#options.address, silent.host);
    this.#isLooking = false;
    if (found === undefined) return;
    if (this.#closing) found.destroy();
    else this.#moveTo(found);
  }

  /** Leaves all other hosts. Transactions in progress there can no longer be trusted to take effect. */
  #moveTo(found: PostgresConnection): void {
    const where = shownHost(found.host);
    this.#options.log.warn(
      { where },
      'another database host accepts writes: the connections to the old one were closed',
    );
    const isOther = ({ host }: { host: PostgresHost }): boolean => host !== found.host;
    const stale = this.#idle.filter(({ connection }) => isOther(connection));
    this.#idle = this.#idle.filter(({ connection }) => !isOther(connection));
    for (const { connection, timer } of stale) {
      clearTimeout(timer);
      this.#open -= 1;
      connection.destroy();
    }
    for (const connection of this.#inUse.keys())
      if (isOther(connection)) connection.abort(`another host accepts writes now: ${where}`);
    this.#open += 1;
    this.#wholeSinceMs = performance.now();
    this.#state = { ready: true };
    this.#adopt(found);
  }

  /** Probes the server until it responds; one probe at a time. */
  #probe(): void {
    if (this.#closing || this.#probing) return;
    this.#probing = this.#probeOnce().finally(() => {
      this.#probing = undefined;
      if (!this.#state.ready) this.#probe();
    });
  }

  async #probeOnce(): Promise<void> {
    if (!this.#state.ready) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, PROBE_PAUSE_MS);
        this.#endPause = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#closing) return;
    try {
      const connection = await connectForOperations(this.#options.address);
      this.#open += 1;
      if (!this.#state.ready) {
        this.#options.log.info('database ready again');
        this.#wholeSinceMs = performance.now();
      }
      this.#state = { ready: true };
      if (this.#open > this.#options.size) this.#end(connection);
      else this.#adopt(connection);
    } catch (error) {
      this.#fail(error as Error);
    }
  }
}

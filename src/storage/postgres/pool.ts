/**
 * A bounded number of connections to one PostgreSQL server, and whether it can be worked with. A connection that is lost
 * has the server looked at at once; when that fails, everybody is refused without waiting, and the server is tried again
 * until it answers. The process never ends for it.
 *
 *   ready ──a connection cannot be opened──▶ not ready (with the reason) ──a trial connects──▶ ready
 */
import { Unavailable } from '../../base/failure.ts';
import type { Log } from '../../base/log.ts';
import type { DatabaseState } from '../database.ts';
import { connectForOperations, type PostgresConnection } from './connection.ts';
import { UnfitServer } from './errors.ts';
import { type PostgresAddress, shownAddress } from './url.ts';

const TRIAL_PAUSE_MS = 250;
/** How long a caller waits for a connection that others use. */
const WAIT_MS = 10_000;
/** An idle connection is closed after this, so that quiet nodes leave room to others. */
const IDLE_CLOSE_MS = 60_000;

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
  onOpen(connection: PostgresConnection): void;
}

export class PostgresPool {
  readonly #options: PoolOptions;
  #idle: Idle[] = [];
  #waiting: Waiting[] = [];
  /** Connections that are open or being opened. */
  #open = 0;
  #opening = 0;
  #state: DatabaseState = { ready: true };
  /** On performance.now(): since when no connection was lost in use, and none refused. */
  #wholeSinceMs = performance.now();
  #trial: Promise<void> | undefined;
  #endPause: (() => void) | undefined;
  #closing = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  state(): DatabaseState {
    return this.#state.ready ? { ready: true, readyForMs: performance.now() - this.#wholeSinceMs } : this.#state;
  }

  /** A connection for the caller alone, to be given back; rejects with Unavailable when there is none to be had. */
  acquire(): Promise<PostgresConnection> {
    return new Promise((resolve, reject) => {
      if (this.#closing) reject(new Unavailable('the database is closed'));
      else if (!this.#state.ready) reject(new Unavailable(this.#state.reason));
      else {
        const timer = setTimeout(() => {
          this.#waiting = this.#waiting.filter((one) => one.timer !== timer);
          reject(new Unavailable('all connections to the database are busy'));
        }, WAIT_MS);
        this.#waiting.push({ resolve, reject, timer });
        this.#serve();
      }
    });
  }

  release(connection: PostgresConnection): void {
    if (connection.broken !== undefined) {
      this.#wholeSinceMs = performance.now();
      this.#drop(connection);
    } else this.#keep(connection);
    this.#serve();
  }

  /** Closes what is idle; whoever still holds a connection gives it back to be closed. */
  close(): void {
    this.#closing = true;
    this.#endPause?.();
    this.#refuse('the database is closed');
    for (const { connection, timer } of this.#idle.splice(0)) {
      clearTimeout(timer);
      this.#open -= 1;
      connection.client.end().catch(() => undefined);
    }
  }

  /** Gives connections to those who wait, and opens more as long as there may be more. */
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
    const done = (): void => {
      this.#opening -= 1;
    };
    connectForOperations(this.#options.address).then(
      (connection) => {
        done();
        this.#adopt(connection);
      },
      (error: Error) => {
        done();
        this.#open -= 1;
        this.#fail(error);
      },
    );
  }

  #adopt(connection: PostgresConnection): void {
    this.#options.onOpen(connection);
    connection.client.on('end', () => this.#lost(connection));
    if (this.#closing) this.#drop(connection);
    else this.#keep(connection);
    this.#serve();
  }

  #hand(connection: PostgresConnection): void {
    const next = this.#waiting.shift() as Waiting;
    clearTimeout(next.timer);
    next.resolve(connection);
  }

  #keep(connection: PostgresConnection): void {
    if (this.#closing) {
      this.#open -= 1;
      connection.client.end().catch(() => undefined);
      return;
    }
    const timer = setTimeout(() => {
      this.#idle = this.#idle.filter((one) => one.connection !== connection);
      this.#open -= 1;
      connection.client.end().catch(() => undefined);
    }, IDLE_CLOSE_MS);
    timer.unref();
    this.#idle.push({ connection, timer });
  }

  #drop(connection: PostgresConnection): void {
    this.#open -= 1;
    const wasLost = connection.broken !== undefined;
    connection.destroy();
    if (wasLost) this.#look();
  }

  /** An idle connection that ends by itself; one in use is told of by its user. */
  #lost(connection: PostgresConnection): void {
    const at = this.#idle.findIndex((one) => one.connection === connection);
    if (at === -1) return;
    clearTimeout(this.#idle[at]!.timer);
    this.#idle.splice(at, 1);
    this.#drop(connection);
  }

  /** Refuses everybody until a trial succeeds. */
  #fail(error: Error): void {
    if (this.#closing) return;
    const where = shownAddress(this.#options.address);
    if (this.#state.ready) this.#options.log.error({ where, err: error.message }, 'the database is not ready');
    // What everybody may read says whose trouble it is, and no more.
    const isAnswer = (error as { severity?: string }).severity !== undefined || error instanceof UnfitServer;
    const reason = isAnswer ? 'the database cannot be used' : 'the database cannot be reached';
    this.#state = { ready: false, reason };
    this.#refuse(`${reason}: ${where}: ${error.message}`);
    this.#look();
  }

  #refuse(reason: string): void {
    for (const one of this.#waiting.splice(0)) {
      clearTimeout(one.timer);
      one.reject(new Unavailable(reason));
    }
  }

  /** Tries the server until it answers; one trial at a time. */
  #look(): void {
    if (this.#closing || this.#trial) return;
    this.#trial = this.#tryOnce().finally(() => {
      this.#trial = undefined;
      if (!this.#state.ready) this.#look();
    });
  }

  async #tryOnce(): Promise<void> {
    if (!this.#state.ready) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, TRIAL_PAUSE_MS);
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
        this.#options.log.info('the database is ready again');
        this.#wholeSinceMs = performance.now();
      }
      this.#state = { ready: true };
      if (this.#open > this.#options.size) this.#drop(connection);
      else this.#adopt(connection);
    } catch (error) {
      this.#fail(error as Error);
    }
  }
}

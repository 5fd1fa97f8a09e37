/**
 * The server database: PostgreSQL 15 or later, directly or through PgBouncer in transaction mode. Each operation is one transaction on a
 * pooled connection; calls of one operation that can run together share transactions, a few at a time, so that under load many share one
 * round trip and one sync.
 *
 * A transaction that is rolled back because of concurrent ones (deadlock, serialization, a unique key) is run again. If the connection is
 * lost, the operation rejects with Unavailable; between the COMMIT and its reply with OutcomeUnknown. Neither is run again.
 *
 * Also keeps the server's time: its last reading, advanced by the monotonic clock. Nodes that share a database agree to a few milliseconds,
 * whatever their own wall clocks show.
 */
import type { Clock } from '../../base/clock.ts';
import { OutcomeUnknown, Unavailable } from '../../base/failure.ts';
import type { Log } from '../../base/log.ts';
import type { Database } from '../database.ts';
import { type Operation, runWithin, type Transaction } from '../operation.ts';
import { StatementError } from './errors.ts';
import { PostgresPool } from './pool.ts';
import type { TransactionMode } from './transaction.ts';
import type { PostgresAddress } from './url.ts';

/** A slower reading is less exact than the previous one, unless that one is old. */
const ROUGH_MS = 50;
const OLD_MS = 60_000;

interface ServerClock extends Clock {
  /** Records that the server reported `serverMs` between these two points of performance.now(). */
  observe(serverMs: number, sentAtMs: number, receivedAtMs: number): void;
}

function createServerClock(): ServerClock {
  let offsetMs = performance.timeOrigin;
  let lastDurationMs = Number.POSITIVE_INFINITY;
  let observedAtMs = Number.NEGATIVE_INFINITY;
  return {
    now: () => Math.round(performance.now() + offsetMs),
    observe: (serverMs, sentAtMs, receivedAtMs) => {
      const durationMs = receivedAtMs - sentAtMs;
      if (durationMs > Math.max(lastDurationMs, ROUGH_MS) && receivedAtMs - observedAtMs < OLD_MS) return;
      offsetMs = serverMs - (sentAtMs + receivedAtMs) / 2;
      lastDurationMs = durationMs;
      observedAtMs = receivedAtMs;
    },
  };
}

const POOL_SIZE = 10;
/** Groups of one operation in progress at a time: while one waits for its sync, the next is written. */
const GROUPS_IN_FLIGHT = 2;
const GROUP_MAX = 128;
const RUNS_AT_MOST = 6;
const CLOCK_MS = 5_000;

interface PostgresOptions {
  address: PostgresAddress;
  log: Log;
  /** Maximum number of connections; 10 by default. */
  poolSize?: number;
  /** With several hosts: how long a transaction runs until the other hosts are looked at; 5 s by default. */
  silentMs?: number;
}

interface Waiting {
  args: unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

type AnyOperation = Operation<unknown, unknown>;

class Operations {
  readonly #pool: PostgresPool;
  readonly #queues = new Map<string, GroupQueue>();
  #underWay = 0;
  #drained: (() => void) | undefined;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async execute(op: AnyOperation, args: unknown): Promise<unknown> {
    this.#underWay += 1;
    try {
      return op.isSet ? await this.#queueOf(op).push(args) : await this.alone(op, args);
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#drained?.();
    }
  }

  /** Runs a transaction until it succeeds or cannot; translates errors. */
  async alone(op: AnyOperation, args: unknown): Promise<unknown> {
    for (let run = 1; ; run += 1) {
      try {
        return await this.transaction(modeOf(op), (tx) => runWithin(tx, op, args));
      } catch (error) {
        if (!(error instanceof StatementError)) throw error;
        const { kind, reason, isKeyTaken } = error.meaning;
        const isLastRun = run === RUNS_AT_MOST;
        if (kind === 'bug' || (isLastRun && isKeyTaken)) throw new Error(`${op.name}: ${reason}`, { cause: error });
        if (kind === 'unavailable' || isLastRun) throw refusalOf(op, error);
        await new Promise((resolve) => setTimeout(resolve, 5 * run * (1 + Math.random())));
      }
    }
  }

  async transaction<R>(mode: TransactionMode, work: (tx: Transaction) => Promise<R> | R): Promise<R> {
    const connection = await this.#pool.acquire();
    try {
      return await connection.transact(mode, work);
    } finally {
      this.#pool.release(connection);
    }
  }

  async drain(): Promise<void> {
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
  }

  #queueOf(op: AnyOperation): GroupQueue {
    let queue = this.#queues.get(op.name);
    if (!queue) {
      queue = new GroupQueue(this, op);
      this.#queues.set(op.name, queue);
    }
    return queue;
  }
}

function modeOf({ slow, mode }: AnyOperation): TransactionMode {
  if (slow) return 'slow';
  return mode === 'write' ? 'write' : 'read';
}

/** Returns the refusal for callers while the server is unavailable. */
function refusalOf(op: AnyOperation, error: Error): Unavailable {
  const isUnknown = error instanceof StatementError && error.meaning.isOutcomeUnknown === true;
  const message = `${op.name}: ${error.message}`;
  if (isUnknown) return new OutcomeUnknown(message);
  return new Unavailable(message, error instanceof Unavailable ? error.failureCode : undefined);
}

/** Calls of one operation that wait to run together. */
class GroupQueue {
  readonly #operations: Operations;
  readonly #op: AnyOperation;
  #waiting: Waiting[] = [];
  #inFlight = 0;
  #scheduled = false;

  constructor(operations: Operations, op: AnyOperation) {
    this.#operations = operations;
    this.#op = op;
  }

  push(args: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ args, resolve, reject });
      if (this.#inFlight >= GROUPS_IN_FLIGHT || this.#scheduled) return;
      this.#scheduled = true;
      // Requests read in the same turn of the event loop join the same group.
      setImmediate(() => this.#pump());
    });
  }

  #pump(): void {
    this.#scheduled = false;
    while (this.#inFlight < GROUPS_IN_FLIGHT && this.#waiting.length > 0) {
      this.#inFlight += 1;
      void this.#runGroup(this.#waiting.splice(0, GROUP_MAX)).finally(() => {
        this.#inFlight -= 1;
        this.#pump();
      });
    }
  }

  async #runGroup(group: Waiting[]): Promise<void> {
    try {
      const calls = group.map((one) => one.args);
      const answers = await this.#operations.transaction('write', (tx) => this.#op.run(tx, calls));
      for (const [index, one] of group.entries()) one.resolve(answers[index]);
      return;
    } catch (error) {
      const isAway =
        error instanceof StatementError ? error.meaning.kind === 'unavailable' : error instanceof Unavailable;
      if (isAway) {
        const refusal = refusalOf(this.#op, error as Error);
        for (const one of group) one.reject(refusal);
        return;
      }
    }
    for (const one of group) await this.#operations.alone(this.#op, one.args).then(one.resolve, one.reject);
  }
}

/** Keeps the process's clock in step with the server's. */
function followClock(operations: Operations, pool: PostgresPool, clock: ServerClock): () => void {
  const look = async (): Promise<void> => {
    const sentAtMs = performance.now();
    const row = await operations.transaction('read', (tx) => tx.get<{ now: number }>('SELECT now_ms() AS now'));
    if (row) clock.observe(row.now, sentAtMs, performance.now());
  };
  const timer = setInterval(() => {
    if (pool.state().ready) look().catch(() => undefined);
  }, CLOCK_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** Warns if commits wait for no standby: promoting one then loses the commits that it has not received. */
async function warnOfAsynchronousStandbys(operations: Operations, log: Log): Promise<void> {
  const row = await operations
    .transaction('read', (tx) => tx.get<{ standbys: number }>('SELECT count(*) AS standbys FROM pg_stat_replication'))
    .catch(() => undefined);
  if (!row?.standbys) return;
  log.warn(
    { standbys: row.standbys },
    'commits do not wait for a standby, so a failover loses mail that was accepted just before it; set synchronous_standby_names',
  );
}

/** Opens a migrated database; rejects if its server cannot be used. */
export async function openPostgresDatabase(options: PostgresOptions): Promise<Database> {
  const clock = createServerClock();
  const pool = new PostgresPool({
    ...options,
    size: options.poolSize ?? POOL_SIZE,
    onOpen: ({ facts: { time } }) => clock.observe(time.serverMs, time.sentAtMs, time.receivedAtMs),
  });
  const operations = new Operations(pool);
  const first = await pool.acquire().catch((error: unknown) => {
    pool.close();
    throw error;
  });
  pool.release(first);
  if (first.facts.standbyNames === '') await warnOfAsynchronousStandbys(operations, options.log);
  const stopClock = followClock(operations, pool, clock);
  return {
    dialect: 'postgres',
    clock,
    execute: <A, R>(op: Operation<A, R>, args: A) =>
      operations.execute(op as unknown as AnyOperation, args) as Promise<R>,
    state: () => pool.state(),
    pool: () => pool.counts(),
    close: async () => {
      stopClock();
      await operations.drain();
      pool.close();
    },
  };
}

/**
 * One connection to a PostgreSQL server and the transactions on it. A transaction is sent without waiting where nothing
 * has to be known first: BEGIN goes out with the first statement, and statements that an operation does not await go out
 * with the COMMIT; an error of any of them rejects the whole. It is committed only when the server says so: a connection that is
 * lost behind the COMMIT leaves the outcome unknown, and the transaction is rejected with a fault that says it.
 *
 * Nothing hangs: lock and statement timeouts are set, behind a pooler with every BEGIN (they would not pass PgBouncer as
 * parameters of the connection), and a server that does not answer at all loses the connection after DEADLINE_MS. A process that stops in
 * the middle of a transaction loses its locks to IDLE_MS.
 */
import { Socket } from 'node:net';
import type { Client, QueryResult } from 'pg';
import type { Row, SqlValue, Transaction } from '../operation.ts';
import { type Fault, judgeCommitFault, judgeFault, UnfitServer } from './errors.ts';
import { statementOf } from './statement.ts';
import { type PostgresAddress, tlsOptions } from './url.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const LOCK_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 20_000;
const IDLE_MS = 10_000;
const DEADLINE_MS = 30_000;
const SLOW_MS = 600_000;
const OLDEST_VERSION = 150_000;

/**
 * Every statement of ours finds few rows by an index. Plans that read and hash whole tables look cheaper now and then, where
 * statistics are old or wrong, and are so nowhere.
 */
const SETTINGS = {
  lock_timeout: LOCK_TIMEOUT_MS,
  statement_timeout: STATEMENT_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_MS,
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  max_parallel_workers_per_gather: 0,
  jit: 'off',
};

const settings = (verb: 'SET' | 'SET LOCAL', values: Record<string, string | number> = SETTINGS): string =>
  Object.entries(values)
    .map(([name, value]) => `; ${verb} ${name} = ${value}`)
    .join('')
    .slice(2);

const BEGIN = {
  write: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
  slow: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
  read: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
};
/** How a transaction is run: `slow` is a write that may take minutes. */
export type TransactionMode = keyof typeof BEGIN;

/** What only holds for a session has to be said again in every transaction where sessions are handed to others. */
function beginText(mode: TransactionMode, { direct, facts }: PostgresConnection): string {
  const parts = [BEGIN[mode]];
  if (!direct) {
    parts.push(settings('SET LOCAL'));
    // What another client of a pooler left behind in the session must not weaken a commit.
    if (mode !== 'read') parts.push(settings('SET LOCAL', { synchronous_commit: facts.synchronousCommit }));
  }
  if (mode === 'slow') parts.push(settings('SET LOCAL', { statement_timeout: SLOW_MS }));
  return parts.join('; ');
}

/** An error of a statement or of a connection, with what it means. */
export class StatementFault extends Error {
  override name = 'StatementFault';
  readonly fault: Fault;
  constructor(fault: Fault) {
    super(fault.reason);
    this.fault = fault;
  }
}

export interface ServerFacts {
  /** Such as 150008. */
  version: number;
  synchronousCommit: string;
  standbyNames: string;
  /** What its clock said between two points of performance.now(). */
  time: { serverMs: number; askedAtMs: number; answeredAtMs: number };
}

export interface PostgresConnection {
  readonly client: Client;
  readonly facts: ServerFacts;
  /** No pooler in between that hands the session to others: prepared statements and LISTEN stay. */
  readonly direct: boolean;
  /** Set once the connection is of no use any more. */
  broken: string | undefined;
  /** Runs one transaction; rejects with StatementFault, or with whatever `work` threw. Nothing is kept unless it resolves. */
  transact<R>(mode: TransactionMode, work: (tx: Transaction) => Promise<R> | R): Promise<R>;
  /** Ends it without ceremony. */
  destroy(): void;
}

const INT8 = 20;
const BYTEA = 17;
const NUMERIC = 1700;
const INT4 = 23;
const INT2 = 21;
/** Times and numbers stay below 2^53; sums of BIGINT come as NUMERIC. */
const parsers = new Map<number, (text: string) => unknown>([
  [INT8, Number],
  [NUMERIC, Number],
  [INT4, Number],
  [INT2, Number],
  [BYTEA, (text) => Buffer.from(text.slice(2), 'hex')],
]);
const asText = (text: string): string => text;
const types = { getTypeParser: (oid: number) => parsers.get(oid) ?? asText };

/** PostgreSQL has no NUL in texts; what carries one (the answer of an endpoint) keeps its length. */
function asParameter(value: SqlValue): unknown {
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
}

/** The same, for operations: with timeouts and without plans that only look cheap. */
export async function connectForOperations(address: PostgresAddress): Promise<PostgresConnection> {
  const connection = await connectPostgres(address);
  const deadline = setTimeout(connection.destroy, CONNECT_TIMEOUT_MS);
  try {
    if (connection.direct) await connection.client.query(settings('SET'));
    return connection;
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    clearTimeout(deadline);
  }
}

/** Connects and asserts that the server keeps what it acknowledges; rejects with UnfitServer, or as the server refuses. */
export async function connectPostgres(address: PostgresAddress): Promise<PostgresConnection> {
  const { default: pg } = await import('pg');
  const socket = new Socket();
  const ssl = tlsOptions(address);
  const client = new pg.Client({
    user: address.user,
    ...(address.password === undefined ? {} : { password: address.password }),
    host: address.host,
    port: address.port,
    database: address.database,
    ssl,
    stream: () => socket,
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: 'postrider',
    types: types as never,
  });
  const connection = wrap(client, socket);
  client.on('error', (error) => {
    connection.broken ??= error.message;
  });
  client.on('end', () => {
    connection.broken ??= 'the connection ended';
  });
  const deadline = setTimeout(() => socket.destroy(new Error('the server does not answer')), CONNECT_TIMEOUT_MS);
  try {
    await client.connect();
    Object.assign(connection, await greet(client));
    return connection;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(deadline);
  }
}

interface Greeting {
  version: number;
  synchronous_commit: string;
  fsync: string;
  encoding: string;
  standby_names: string;
  pid: number;
  standby: string;
  now_ms: number;
}

/** Reads what the promises depend on; throws UnfitServer with a sentence when it is not as it must be. */
async function greet(client: Client): Promise<{ facts: ServerFacts; direct: boolean }> {
  const askedAtMs = performance.now();
  const { rows } = await client.query<Greeting>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('server_encoding') AS encoding,
       current_setting('synchronous_standby_names') AS standby_names, pg_backend_pid() AS pid,
       pg_is_in_recovery()::text AS standby, (date_part('epoch', clock_timestamp()) * 1000)::bigint AS now_ms`,
  );
  const answeredAtMs = performance.now();
  const server = rows[0] as Greeting;
  const facts = {
    version: server.version,
    synchronousCommit: server.synchronous_commit,
    standbyNames: server.standby_names,
    time: { serverMs: server.now_ms, askedAtMs, answeredAtMs },
  };
  if (facts.version < OLDEST_VERSION) {
    throw new UnfitServer(`the server is PostgreSQL ${Math.floor(facts.version / 10_000)}; 15 or later is needed`);
  }
  if (server.encoding !== 'UTF8') {
    throw new UnfitServer(`the database is encoded in ${server.encoding}; make it with ENCODING 'UTF8'`);
  }
  if (server.standby === 'true') throw new UnfitServer('the server is a standby, which cannot be written to');
  if (server.fsync !== 'on') {
    throw new UnfitServer('the server runs with fsync=off and would lose accepted mail; turn it on');
  }
  assertCommitIsDurable(facts);
  // A pooler hands out a key of its own in place of the server's process id.
  return { facts, direct: (client as { processID?: number }).processID === server.pid };
}

/**
 * `on` and `remote_apply` keep every promise. `local` and `remote_write` mean the same as `on` while no standby is
 * named, and less than what its operator expects of a synchronous standby once there is one.
 */
export function assertCommitIsDurable(facts: Pick<ServerFacts, 'synchronousCommit' | 'standbyNames'>): void {
  const { synchronousCommit: level, standbyNames } = facts;
  if (level === 'on' || level === 'remote_apply') return;
  if ((level === 'local' || level === 'remote_write') && standbyNames === '') return;
  throw new UnfitServer(
    `the server runs with synchronous_commit=${level}${level === 'off' ? '' : ' beside synchronous standbys'} and could lose accepted mail; set it to on for this user or database`,
  );
}

function wrap(client: Client, socket: Socket): PostgresConnection {
  const connection: PostgresConnection = {
    client,
    facts: {
      version: 0,
      synchronousCommit: '',
      standbyNames: '',
      time: { serverMs: 0, askedAtMs: 0, answeredAtMs: 0 },
    },
    direct: false,
    broken: undefined,
    destroy: () => {
      connection.broken ??= 'closed';
      socket.destroy();
    },
    transact: async (mode, work) => {
      const deadline = setTimeout(
        () => socket.destroy(new Error('the server did not answer in time')),
        mode === 'slow' ? SLOW_MS : DEADLINE_MS,
      );
      try {
        return await transact(connection, mode, work);
      } catch (error) {
        if (error instanceof StatementFault && error.fault.drop) connection.broken ??= error.fault.reason;
        throw error;
      } finally {
        clearTimeout(deadline);
      }
    },
  };
  return connection;
}

async function transact<R>(
  connection: PostgresConnection,
  mode: TransactionMode,
  work: (tx: Transaction) => Promise<R> | R,
): Promise<R> {
  const { client } = connection;
  const open = openTransaction(connection);
  gatherWrites(client);
  open.watch(client.query(beginText(mode, connection)));
  let value: R;
  try {
    value = await work(open.tx);
  } catch (error) {
    open.close();
    await client.query('ROLLBACK').catch(() => undefined);
    throw open.fault() ?? error;
  }
  open.close();
  // What is lost already gets no COMMIT.
  const lost = open.fault() !== undefined || connection.broken !== undefined;
  let ended: QueryResult;
  try {
    gatherWrites(client);
    ended = await client.query('COMMIT');
  } catch (error) {
    throw commitFault(error, { mode, lost, first: open.fault() });
  }
  // The COMMIT of a failed transaction rolls it back, and says so. Earlier statements were answered before it.
  const fault = open.fault();
  if (fault) throw fault;
  if (ended.command !== 'COMMIT') throw new Error('the transaction was rolled back without an error');
  return value;
}

/** What a rejected COMMIT means; `first` is the fault of a statement that was sent before it, `lost` that this was known. */
function commitFault(
  error: unknown,
  { mode, lost, first }: { mode: TransactionMode; lost: boolean; first: StatementFault | undefined },
): StatementFault {
  if (mode === 'read' || lost) return first ?? new StatementFault(judgeFault(error));
  // The COMMIT behind a statement that the server refused commits nothing, whatever became of its answer.
  if (first?.fault.isServersWord) return first;
  return new StatementFault(judgeCommitFault(error));
}

/**
 * Lets what is sent in one turn leave in one write. The driver writes each statement by itself, and each write is a system
 * call that wakes the server's process: a fifth of the serving thread's time while it accepts mail.
 */
function gatherWrites({ connection: { stream } }: Client): void {
  stream.cork();
  process.nextTick(() => stream.uncork());
}

interface OpenTransaction {
  tx: Transaction;
  /** Keeps the first error; the promise may be left alone then. */
  watch<T>(sent: Promise<T>): Promise<T>;
  /** The first error of a statement; those that follow it only say that the transaction is aborted. */
  fault(): StatementFault | undefined;
  close(): void;
}

function openTransaction({ client, direct }: PostgresConnection): OpenTransaction {
  let first: StatementFault | undefined;
  let closed = false;
  const watch = <T>(sent: Promise<T>): Promise<T> => {
    const told = sent.catch((error: unknown) => {
      first ??= new StatementFault(judgeFault(error));
      throw first;
    });
    told.catch(() => undefined);
    return told;
  };
  const send = <T>(sql: string, params: SqlValue[], pick: (result: QueryResult) => T): Promise<T> => {
    if (closed) throw new Error('a statement was sent after its operation had ended');
    const { text, name } = statementOf(sql);
    const values = params.map(asParameter);
    gatherWrites(client);
    // Watched as it comes, so that an error is known before the answer to a COMMIT that was sent behind it.
    const told = watch(client.query(direct && name !== undefined ? { text, name, values } : { text, values }));
    const picked = told.then(pick);
    picked.catch(() => undefined);
    return picked;
  };
  const tx: Transaction = {
    dialect: 'postgres',
    all: <T = Row>(sql: string, ...params: SqlValue[]) => send(sql, params, ({ rows }) => rows as T[]),
    get: <T = Row>(sql: string, ...params: SqlValue[]) => send(sql, params, ({ rows }) => rows[0] as T | undefined),
    run: (sql: string, ...params: SqlValue[]) => send(sql, params, ({ rowCount }) => rowCount ?? 0),
  };
  return {
    tx,
    watch,
    fault: () => first,
    close: () => {
      closed = true;
    },
  };
}

/**
 * One connection to a PostgreSQL server. It is opened only to a server that keeps what it acknowledges. Nothing hangs: a server
 * that does not answer at all loses the connection after DEADLINE_MS.
 */
import type { Socket } from 'node:net';
import type { Client } from 'pg';
import type { Transaction } from '../operation.ts';
import { isCommitWarning, type ServerNotice, StandbyServer, StatementError, UnsuitableServer } from './errors.ts';
import { type Session, SLOW_MS, settings, type TransactionMode, transact } from './transaction.ts';
import { connectionKinds, type PostgresAddress, type PostgresHost, tlsOptions } from './url.ts';

/** For the settings of a session that was just opened. */
const SETTINGS_MS = 5_000;
const DEADLINE_MS = 30_000;
const OLDEST_VERSION = 150_000;

export interface ServerFacts {
  /** Such as 150008. */
  version: number;
  synchronousCommit: string;
  standbyNames: string;
  /** What its clock said between two points of performance.now(). */
  time: { serverMs: number; askedAtMs: number; answeredAtMs: number };
}

export class PostgresConnection implements Session {
  readonly client: Client;
  readonly facts: ServerFacts;
  /** No pooler in between that hands the session to others: prepared statements and LISTEN stay. */
  readonly direct: boolean;
  broken: string | undefined;
  warning: string | undefined;

  constructor(client: Client, { facts, direct }: { facts: ServerFacts; direct: boolean }) {
    this.client = client;
    this.facts = facts;
    this.direct = direct;
    client.on('error', (error) => {
      this.broken ??= error.message;
    });
    client.on('end', () => {
      this.broken ??= 'the connection ended';
    });
    client.on('notice', (notice: ServerNotice) => {
      if (isCommitWarning(notice)) this.warning ??= notice.message ?? 'a warning without a text';
    });
  }

  /** `local` and `remote_write` are as good as `on` only until a standby is named, which may happen while the session is open. */
  get synchronousCommit(): string {
    return this.facts.synchronousCommit === 'remote_apply' ? 'remote_apply' : 'on';
  }

  /** Runs one transaction; rejects with StatementError, or with whatever `work` threw. Nothing is kept unless it resolves. */
  async transact<R>(mode: TransactionMode, work: (tx: Transaction) => Promise<R> | R): Promise<R> {
    const deadline = setTimeout(
      () => socketOf(this.client).destroy(new Error('the server did not answer in time')),
      mode === 'slow' ? SLOW_MS : DEADLINE_MS,
    );
    try {
      return await transact(this, mode, work);
    } catch (error) {
      if (error instanceof StatementError && error.meaning.drop) this.broken ??= error.meaning.reason;
      throw error;
    } finally {
      clearTimeout(deadline);
    }
  }

  /** Ends it at once. */
  readonly destroy = (): void => {
    this.broken ??= 'closed';
    socketOf(this.client).destroy();
  };
}

function socketOf(client: Client): Socket {
  return client.connection.stream as Socket;
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

/** Connects for operations: with timeouts, and without plans that only look cheap. */
export async function connectForOperations(address: PostgresAddress): Promise<PostgresConnection> {
  const connection = await connectPostgres(address);
  const deadline = setTimeout(connection.destroy, SETTINGS_MS);
  try {
    const { synchronousCommit: synchronous_commit } = connection;
    if (connection.direct)
      await connection.client.query(`${settings('SET')}; ${settings('SET', { synchronous_commit })}`);
    return connection;
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    clearTimeout(deadline);
  }
}

/**
 * Connects to the first host that takes writes, and asserts that the server keeps what it acknowledges. Rejects with UnsuitableServer, or as
 * the server refuses; of several hosts with the error of the one that answered, if any did.
 */
export async function connectPostgres(address: PostgresAddress): Promise<PostgresConnection> {
  let failure: Error | undefined;
  for (const host of address.hosts) {
    try {
      return await connectToHost(address, host);
    } catch (error) {
      // A server that answers and refuses tells more than one that is away, and anything more than a standby.
      if (!failure || !tellsMore(failure, error as Error)) failure = error as Error;
    }
  }
  throw failure;
}

/** Whether the first failure says more of what is wrong than the second one. */
function tellsMore(first: Error, second: Error): boolean {
  const rank = (error: Error): number => {
    if (error instanceof StandbyServer) return 1;
    if (error instanceof UnsuitableServer) return 3;
    return (error as { severity?: string }).severity === undefined ? 0 : 2;
  };
  return rank(first) > rank(second);
}

/** Over the kinds of connection that the sslmode allows, one after the other where the server has no such kind. */
async function connectToHost(address: PostgresAddress, host: PostgresHost): Promise<PostgresConnection> {
  const kinds = connectionKinds(address);
  for (const [at, kind] of kinds.entries()) {
    try {
      return await connectOnce(address, host, kind);
    } catch (error) {
      if (at === kinds.length - 1 || !isRefusedKind(error as Error & { code?: string })) throw error;
    }
  }
  throw new Error('no kind of connection is allowed');
}

/** That the server has no TLS, or wants it: another kind of connection may do. */
function isRefusedKind({ message, code }: Error & { code?: string }): boolean {
  return /does not support SSL/.test(message) || code === '28000';
}

async function connectOnce(
  address: PostgresAddress,
  { host, port }: PostgresHost,
  kind: 'plain' | 'tls',
): Promise<PostgresConnection> {
  const { default: pg } = await import('pg');
  const { user, password, database, channelBinding, applicationName, connectTimeoutMs, options } = address;
  const client = new pg.Client({
    user,
    ...(password === undefined ? {} : { password }),
    host,
    port,
    database,
    ssl: kind === 'tls' && tlsOptions(address),
    enableChannelBinding: kind === 'tls' && channelBinding !== 'disable',
    ...(options === undefined ? {} : { options }),
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: applicationName,
    types: types as never,
  });
  // Who waits for an answer gets the same error.
  client.on('error', () => undefined);
  let isBound = false;
  client.connection.once('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    isBound = kind === 'tls' && mechanisms.includes('SCRAM-SHA-256-PLUS');
  });
  const deadline = setTimeout(
    () => socketOf(client).destroy(new Error('the server does not answer')),
    connectTimeoutMs,
  );
  try {
    await client.connect();
    if (channelBinding === 'require' && !isBound) {
      throw new UnsuitableServer('channel_binding=require, but the server does not offer SCRAM-SHA-256-PLUS');
    }
    return new PostgresConnection(client, await greet(client));
  } catch (error) {
    socketOf(client).destroy();
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
  read_only: string;
  now_ms: number;
}

/** Reads what the promises depend on; throws UnsuitableServer with a sentence when it is not as it must be. */
async function greet(client: Client): Promise<{ facts: ServerFacts; direct: boolean }> {
  const askedAtMs = performance.now();
  const { rows } = await client.query<Greeting>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('server_encoding') AS encoding,
       current_setting('synchronous_standby_names') AS standby_names, pg_backend_pid() AS pid,
       pg_is_in_recovery()::text AS standby, current_setting('transaction_read_only') AS read_only, (date_part('epoch', clock_timestamp()) * 1000)::bigint AS now_ms`,
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
    throw new UnsuitableServer(`the server is PostgreSQL ${Math.floor(facts.version / 10_000)}; 15 or later is needed`);
  }
  if (server.encoding !== 'UTF8') {
    throw new UnsuitableServer(`the database is encoded in ${server.encoding}; make it with ENCODING 'UTF8'`);
  }
  if (server.standby === 'true') throw new StandbyServer('the server is a standby, which cannot be written to');
  if (server.read_only === 'on') throw new StandbyServer('sessions on the server are read-only by default');
  if (server.fsync !== 'on') {
    throw new UnsuitableServer('the server runs with fsync=off and would lose accepted mail; turn it on');
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
  throw new UnsuitableServer(
    `the server runs with synchronous_commit=${level}${level === 'off' ? '' : ' beside synchronous standbys'} and could lose accepted mail; set it to on for this user or database`,
  );
}

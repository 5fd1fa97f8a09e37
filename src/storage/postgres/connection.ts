/**
 * Opens a connection to a PostgreSQL server, and only to a server that durably stores what it acknowledges. If a transaction takes longer
 * than DEADLINE_MS (SLOW_MS for slow ones), its connection is closed.
 */
import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { Client, ClientConfig } from 'pg';
import type { Transaction } from '../operation.ts';
import {
  isCommitWarning,
  isTransient,
  NotWritable,
  type ServerNotice,
  StatementError,
  UnsuitableServer,
} from './errors.ts';
import { type Session, SLOW_MS, settings, statementNames, type TransactionMode, transact } from './transaction.ts';
import { type PostgresAddress, type PostgresHost, shownHost, type TlsOptions, tlsAttempts } from './url.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const DEADLINE_MS = 30_000;
const OLDEST_VERSION = 150_000;

export interface ServerFacts {
  /** Numeric version, such as 150008. */
  version: number;
  synchronousCommit: string;
  standbyNames: string;
  /** The server's time, read between two points of performance.now(). */
  time: { serverMs: number; sentAtMs: number; receivedAtMs: number };
}

export class PostgresConnection implements Session {
  readonly client: Client;
  readonly host: PostgresHost;
  readonly facts: ServerFacts;
  /** True if no pooler shares the session, so prepared statements and LISTEN persist. */
  readonly direct: boolean;
  readonly statementOf = statementNames();
  broken: string | undefined;
  warning: string | undefined;

  constructor(client: Client, { host, facts, direct }: { host: PostgresHost; facts: ServerFacts; direct: boolean }) {
    this.client = client;
    this.host = host;
    this.facts = facts;
    this.direct = direct;
    client.on('error', (error) => {
      this.broken ??= error.message;
    });
    client.on('end', () => {
      this.broken ??= 'the connection ended';
    });
    client.on('notice', (notice: ServerNotice) => {
      if (isCommitWarning(notice)) this.warning ??= notice.message ?? 'a warning without text';
    });
  }

  /**
   * Returns the synchronous_commit level to set. `local` and `remote_write` are equivalent to `on` only until a standby is configured,
   * which can happen during a session.
   */
  get synchronousCommit(): string {
    return this.facts.synchronousCommit === 'remote_apply' ? 'remote_apply' : 'on';
  }

  /**
   * Runs one transaction. Rejects with StatementError, or with the error that `work` threw. If it rejects, nothing was committed, unless
   * the outcome is unknown.
   */
  async transact<R>(mode: TransactionMode, work: (tx: Transaction) => Promise<R> | R): Promise<R> {
    const deadline = setTimeout(
      () => socketOf(this.client).destroy(new Error('the server did not respond in time')),
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

  /** Closes the connection immediately. */
  readonly destroy = (): void => {
    this.broken ??= 'closed';
    socketOf(this.client).destroy();
  };

  /** Closes the connection immediately; a transaction in progress rejects with the reason. */
  abort(reason: string): void {
    this.broken ??= reason;
    socketOf(this.client).destroy(new Error(reason));
  }
}

function socketOf(client: Client): Socket {
  return client.connection.stream as Socket;
}

const INT8 = 20;
const BYTEA = 17;
const NUMERIC = 1700;
const INT4 = 23;
const INT2 = 21;
/**
 * Integers are read as JavaScript numbers, because stored times and numbers stay below 2^53. PostgreSQL returns sums of BIGINT as NUMERIC.
 */
const parsers = new Map<number, (text: string) => unknown>([
  [INT8, Number],
  [NUMERIC, Number],
  [INT4, Number],
  [INT2, Number],
  [BYTEA, (text) => Buffer.from(text.slice(2), 'hex')],
]);
const asText = (text: string): string => text;
const types = { getTypeParser: (oid: number) => parsers.get(oid) ?? asText };

/** Connects and applies the settings for operations: timeouts, and planner settings that favor index lookups. */
export async function connectForOperations(address: PostgresAddress): Promise<PostgresConnection> {
  return prepared(await connectPostgres(address));
}

/** Connects in the same way to another host, if the given one no longer accepts writes and another one does. */
export async function connectElsewhere(
  address: PostgresAddress,
  than: PostgresHost,
): Promise<PostgresConnection | undefined> {
  for (const host of address.hosts) {
    if (host === than) continue;
    const connection = await connectToHost(address, host)
      .then(prepared)
      .catch(() => undefined);
    if (connection === undefined) continue;
    // Two hosts may both lead to the primary, for example two proxies.
    if (await isPrimary(address, than)) {
      connection.destroy();
      return undefined;
    }
    lastWritable.set(address, host);
    return connection;
  }
  return undefined;
}

/** False if the host does not answer or is a standby. Any other answer, such as too many connections, is one of a primary. */
async function isPrimary(address: PostgresAddress, host: PostgresHost): Promise<boolean> {
  try {
    (await connectToHost(address, host)).destroy();
    return true;
  } catch (error) {
    return (error as { severity?: string }).severity !== undefined;
  }
}

async function prepared(connection: PostgresConnection): Promise<PostgresConnection> {
  const deadline = setTimeout(connection.destroy, CONNECT_TIMEOUT_MS);
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
 * Maps an address to the host that last accepted writes. That host is tried first, so a host that is down does not delay each connection.
 */
const lastWritable = new WeakMap<PostgresAddress, PostgresHost>();

/**
 * Connects to the first host that accepts writes, and verifies that the server keeps what it acknowledges. Rejects with UnsuitableServer or
 * the server's own error. If the address has several hosts, the message gives the reason for each.
 */
export async function connectPostgres(address: PostgresAddress): Promise<PostgresConnection> {
  const last = lastWritable.get(address);
  const hosts = last ? [last, ...address.hosts.filter((host) => host !== last)] : address.hosts;
  const errors: Error[] = [];
  for (const host of hosts) {
    try {
      const connection = await connectToHost(address, host);
      lastWritable.set(address, host);
      return connection;
    } catch (error) {
      errors.push(error as Error);
    }
  }
  if (errors.length === 1) throw errors[0];
  const reasons = errors.map((error, index) => `${shownHost(hosts[index]!)}: ${error.message}`).join('; ');
  // During a failover every host may be unavailable or a standby for a moment.
  const maySucceedLater = errors.some((error) => error instanceof NotWritable || isTransient(error));
  throw maySucceedLater ? new Error(reasons) : new UnsuitableServer(reasons);
}

async function connectToHost(address: PostgresAddress, host: PostgresHost): Promise<PostgresConnection> {
  const attempts = tlsAttempts(address, host);
  for (const [index, ssl] of attempts.entries()) {
    try {
      return await connectOnce({ address, host, ssl });
    } catch (error) {
      if (index + 1 === attempts.length || !isAboutTls(error)) throw error;
    }
  }
  throw new Error('the address has no host to connect to');
}

/** Returns whether the opposite TLS setting may work: the server has no TLS, TLS failed, or pg_hba.conf rejects the connection. */
function isAboutTls(error: unknown): boolean {
  const { code, message } = error as { code?: string; message: string };
  return (
    code === '28000' ||
    code === 'EPROTO' ||
    code?.startsWith('ERR_SSL') === true ||
    /does not support SSL/.test(message)
  );
}

interface Attempt {
  address: PostgresAddress;
  host: PostgresHost;
  ssl: TlsOptions | false;
}

async function connectOnce({ address, host, ssl }: Attempt): Promise<PostgresConnection> {
  const { default: pg } = await import('pg');
  const timeoutMs = address.connectTimeoutMs ?? CONNECT_TIMEOUT_MS;
  const client = new pg.Client({
    user: address.user,
    ...(address.password === undefined ? {} : { password: address.password }),
    host: host.host,
    port: host.port,
    database: address.database,
    ssl: ssl as never,
    enableChannelBinding: address.channelBinding !== 'disable',
    ...(address.options === undefined ? {} : { options: address.options }),
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: address.keepAliveIdleMs ?? 10_000,
    connectionTimeoutMillis: timeoutMs,
    application_name: address.applicationName,
    types: types as never,
  } as ClientConfig);
  // An 'error' event without a listener would end the process. Pending queries reject with the same error.
  client.on('error', () => undefined);
  const refusal = address.channelBinding === 'require' ? requireChannelBinding(client) : () => undefined;
  const deadline = setTimeout(
    () => socketOf(client).destroy(new Error('the server did not respond in time')),
    timeoutMs,
  );
  try {
    await client.connect();
    return new PostgresConnection(client, { host, ...(await readServerFacts(client)) });
  } catch (error) {
    socketOf(client).destroy();
    throw refusal() ?? error;
  } finally {
    clearTimeout(deadline);
  }
}

const WITHOUT_BINDING = ['authenticationCleartextPassword', 'authenticationMD5Password'] as const;

/**
 * Ends the connection before the driver responds, unless the server authenticates with SCRAM-SHA-256-PLUS. The returned function returns
 * the error if the connection was ended for this reason.
 */
function requireChannelBinding(client: Client): () => UnsuitableServer | undefined {
  const connection = client.connection as unknown as EventEmitter;
  let isBound = false;
  let refusal: UnsuitableServer | undefined;
  const refuse = (): void => {
    refusal ??= new UnsuitableServer('the server does not offer channel binding (SCRAM-SHA-256-PLUS)');
    socketOf(client).destroy(refusal);
  };
  connection.prependListener('authenticationSASL', ({ mechanisms }: { mechanisms: readonly string[] }) => {
    if (!mechanisms.includes('SCRAM-SHA-256-PLUS')) refuse();
  });
  // At this event the driver verifies the server's proof, and fails if it is wrong.
  connection.prependListener('authenticationSASLFinal', () => {
    isBound = true;
  });
  for (const event of WITHOUT_BINDING) connection.prependListener(event, refuse);
  connection.prependListener('authenticationOk', () => {
    if (!isBound) refuse();
  });
  return () => refusal;
}

interface ServerSettings {
  version: number;
  synchronous_commit: string;
  fsync: string;
  full_page_writes: string;
  read_only: string;
  encoding: string;
  standby_names: string;
  pid: number;
  standby: string;
  now_ms: number;
}

/** Reads the settings that durability depends on; throws UnsuitableServer if one is not acceptable. */
async function readServerFacts(client: Client): Promise<{ facts: ServerFacts; direct: boolean }> {
  const sentAtMs = performance.now();
  const { rows } = await client.query<ServerSettings>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes, current_setting('transaction_read_only') AS read_only,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('server_encoding') AS encoding,
       current_setting('synchronous_standby_names') AS standby_names, pg_backend_pid() AS pid,
       pg_is_in_recovery()::text AS standby, (date_part('epoch', clock_timestamp()) * 1000)::bigint AS now_ms`,
  );
  const receivedAtMs = performance.now();
  const server = rows[0] as ServerSettings;
  const facts = {
    version: server.version,
    synchronousCommit: server.synchronous_commit,
    standbyNames: server.standby_names,
    time: { serverMs: server.now_ms, sentAtMs, receivedAtMs },
  };
  if (facts.version < OLDEST_VERSION) {
    throw new UnsuitableServer(
      `the server is PostgreSQL ${Math.floor(facts.version / 10_000)}; use PostgreSQL 15 or later`,
    );
  }
  if (server.encoding !== 'UTF8') {
    throw new UnsuitableServer(`the database is encoded in ${server.encoding}; create it with ENCODING 'UTF8'`);
  }
  if (server.standby === 'true') throw new NotWritable('the server is a standby, which does not accept writes');
  if (server.read_only === 'on') {
    throw new NotWritable('the server is read-only (default_transaction_read_only=on)');
  }
  if (server.fsync !== 'on') {
    throw new UnsuitableServer('the server runs with fsync=off and can lose accepted mail; set fsync=on');
  }
  if (server.full_page_writes !== 'on') {
    throw new UnsuitableServer(
      'the server runs with full_page_writes=off and can lose accepted mail in a power failure; set full_page_writes=on',
    );
  }
  assertCommitIsDurable(facts);
  // A pooler sends its own id instead of the server's process id.
  return { facts, direct: (client as { processID?: number }).processID === server.pid };
}

/**
 * Throws UnsuitableServer if a committed transaction could be lost. `on` and `remote_apply` are always safe. `local` and `remote_write` are
 * equivalent to `on` only while no standby is configured; with a synchronous standby they do not wait for it to store the commit.
 */
export function assertCommitIsDurable(facts: Pick<ServerFacts, 'synchronousCommit' | 'standbyNames'>): void {
  const { synchronousCommit: level, standbyNames } = facts;
  if (level === 'on' || level === 'remote_apply') return;
  if ((level === 'local' || level === 'remote_write') && standbyNames === '') return;
  throw new UnsuitableServer(
    `the server runs with synchronous_commit=${level}${level === 'off' ? '' : ' with synchronous standbys'} and can lose accepted mail; set it to on for this user or database`,
  );
}

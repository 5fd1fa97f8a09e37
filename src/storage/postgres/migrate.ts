/**
 * Applies the numbered migrations to PostgreSQL, each in one transaction under an advisory lock, so that of several nodes that start
 * together one migrates and the others find it done. Refuses the same databases as migrateSqlite. Waits for a server that is still
 * starting.
 */
import type { Log } from '../../base/log.ts';
import { type AppliedMigration, listMigrations, type Migration, pendingMigration } from '../migrate.ts';
import { connectPostgres, type PostgresConnection } from './connection.ts';
import { classifyError, isTransient } from './errors.ts';
import { type PostgresAddress, shownAddress } from './url.ts';

/** Advisory lock key; any number that no other program uses. */
const MIGRATION_LOCK = 7_091_544_210;
/** Between two statements: a node that lost power frees its lock after this, instead of after TCP's two hours. */
const IDLE_MS = 10_000;
const RETRY_FOR_MS = 30_000;
const PAUSE_MS = 500;
/** How often one migration is tried while nodes of the earlier version use the tables that it locks. */
const MAX_ATTEMPTS = 20;

export interface PostgresMigration {
  address: PostgresAddress;
  log: Log;
  nowMs: number;
}

/** Connects, with retries for half a minute while the server is unreachable. Rejects with an error for the operator. */
export async function connectPatiently({
  address,
  log,
}: {
  address: PostgresAddress;
  log: Log;
}): Promise<PostgresConnection> {
  const until = performance.now() + RETRY_FOR_MS;
  for (let isLogged = false; ; isLogged = true) {
    try {
      return await connectPostgres(address);
    } catch (error) {
      const { message } = error as Error;
      if (!isTransient(error) || performance.now() > until) {
        throw new Error(`the database ${shownAddress(address)} cannot be used: ${message}`, { cause: error });
      }
      if (!isLogged) log.warn({ error: message }, 'database unreachable; retrying for 30 s');
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

/**
 * Applies the next migration in a transaction; returns its name, or undefined if there is none. A migration that locks several tables can
 * deadlock with a node of the earlier version, which locks them in another order. The server then rolls one of the transactions back.
 */
async function applyNext(
  client: PostgresConnection['client'],
  wanted: Migration[],
  nowMs: number,
): Promise<string | undefined> {
  // No other timeouts: another node, or this one, may be migrating a large table.
  await client.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${IDLE_MS}`);
  await client.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
  await client.query(
    'CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)',
  );
  const done = await client.query<{ number: number; name: string }>(
    'SELECT number, name FROM migration ORDER BY number',
  );
  const next = pendingMigration(wanted, done.rows);
  if (next) {
    await client.query(next.sql);
    await client.query('INSERT INTO migration (number, name, applied_at) VALUES ($1, $2, $3)', [
      next.number,
      next.name,
      nowMs,
    ]);
  }
  await client.query('COMMIT');
  return next?.name;
}

/** Migrates the database; returns the names of the applied migrations, none if it was up to date. */
export async function migratePostgres(migration: PostgresMigration): Promise<string[]> {
  const connection = await connectPatiently(migration);
  const { client } = connection;
  const wanted = listMigrations('postgres');
  const applied: string[] = [];
  try {
    for (let attempts = 1; ; ) {
      try {
        const name = await applyNext(client, wanted, migration.nowMs);
        if (name === undefined) return applied;
        applied.push(name);
        attempts = 1;
      } catch (error) {
        const { kind, isKeyTaken = false, drop, reason } = classifyError(error);
        if (kind !== 'again' || isKeyTaken || drop || attempts >= MAX_ATTEMPTS) throw error;
        attempts += 1;
        await client.query('ROLLBACK');
        migration.log.warn({ error: reason }, 'migration interrupted by other nodes; trying it again');
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  } finally {
    // This also ends an open transaction and rolls it back.
    connection.destroy();
  }
}

/** Returns the migrations that the database records, in order; none if it is empty. Changes nothing. */
export async function recordedPostgres(target: { address: PostgresAddress; log: Log }): Promise<AppliedMigration[]> {
  const connection = await connectPatiently(target);
  try {
    const table = await connection.client.query("SELECT to_regclass('migration') IS NOT NULL AS found");
    if (!(table.rows[0] as { found: string }).found.startsWith('t')) return [];
    const recorded = await connection.client.query<AppliedMigration>(
      'SELECT number, name, applied_at AS "appliedAtMs" FROM migration ORDER BY number',
    );
    return recorded.rows;
  } finally {
    connection.destroy();
  }
}

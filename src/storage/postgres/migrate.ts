/**
 * Applies the numbered migrations to PostgreSQL, each in one transaction under an advisory lock, so that of several nodes that start
 * together one migrates and the others find it done. Refuses the same databases as migrateSqlite. Waits for a server that is still
 * starting.
 */
import type { Log } from '../../base/log.ts';
import { type AppliedMigration, listMigrations, pendingMigration } from '../migrate.ts';
import { connectPostgres, type PostgresConnection } from './connection.ts';
import { isTransient } from './errors.ts';
import { type PostgresAddress, shownAddress } from './url.ts';

/** Advisory lock key; any number that no other program uses. */
const MIGRATION_LOCK = 7_091_544_210;
/** Between two statements: a node that lost power frees its lock after this, instead of after TCP's two hours. */
const IDLE_MS = 10_000;
const RETRY_FOR_MS = 30_000;
const PAUSE_MS = 500;

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
      if (!isLogged) log.warn({ err: message }, 'database unreachable; retrying for 30 s');
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

/** Migrates the database; returns the names of the applied migrations, none if it was up to date. */
export async function migratePostgres(migration: PostgresMigration): Promise<string[]> {
  const connection = await connectPatiently(migration);
  const { client } = connection;
  const wanted = listMigrations('postgres');
  const applied: string[] = [];
  try {
    for (;;) {
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
          migration.nowMs,
        ]);
      }
      await client.query('COMMIT');
      if (!next) return applied;
      applied.push(next.name);
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

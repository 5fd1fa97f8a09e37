/**
 * Opens the configured database and migrates it: SQLite in the data directory, where leases of a crashed process are taken over first,
 * since no other process can hold any; or a PostgreSQL server, where other nodes may be running and leases expire on their own.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import { moduleUrl } from '../base/program-files.ts';
import type { Config } from '../config.ts';
import { hasWeeksOperation, makePartitions } from '../messages/messages.ts';
import { assertDatabaseNotLost, type DataDirectory } from '../storage/data-directory.ts';
import { type Database, type Hints, noHints } from '../storage/database.ts';
import { alignEventOrderOperation } from '../storage/meta-store.ts';
import { migrateSqlite } from '../storage/migrate.ts';
import { openSqlite, type SqliteConnection } from '../storage/sqlite/connection.ts';
import { openSqliteDatabase } from '../storage/sqlite/database.ts';
import { assertLogWhole } from '../storage/sqlite/log-check.ts';
import { recoverOperation } from '../work/work.ts';

/** Tries while the current rows have no partition. */
const PARTITION_TRIES = 5;
const PARTITION_PAUSE_MS = 1_000;

interface OpenDatabaseOptions {
  config: Pick<Config, 'databaseUrl'>;
  directory: DataDirectory;
  clock: Clock;
  log: Log;
  /** Storage can no longer be trusted, so the process should exit. Not called for an unavailable server. */
  onBroken(reason: string): void;
  /** Called with the embedded database before it is migrated; nothing is migrated if it rejects. */
  beforeMigration?(connection: SqliteConnection): Promise<void>;
}

/** Rejects with an error for the operator if it cannot be used. */
export async function openDatabase(options: OpenDatabaseOptions): Promise<Database> {
  const { config, clock, log } = options;
  if (config.databaseUrl === undefined) return openEmbedded(options);
  // Loaded on demand: SQLite must not pay for the client's memory.
  const { migratePostgres } = await import('../storage/postgres/migrate.ts');
  const { openPostgresDatabase } = await import('../storage/postgres/database.ts');
  await import('./operations.ts');
  const address = config.databaseUrl;
  noteMigrations(log, await migratePostgres({ address, log, nowMs: clock.now() }));
  const database = await openPostgresDatabase({ address, log });
  try {
    const isRestored = await database.execute(alignEventOrderOperation, null);
    if (isRestored) log.warn('database restored into another cluster; new events continue after the existing ones');
    await preparePartitions(database, (database.clock ?? clock).now(), log);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Creates the partitions of the coming weeks. A locked table (a dump, a vacuum, another node that creates them) does not prevent the start:
 * if the current rows have a partition, housekeeping creates the others later; if not, rows go to the default partition after some tries.
 */
async function preparePartitions(database: Database, nowMs: number, log: Log): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await makePartitions(database, { nowMs });
      return;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const isReady = await database.execute(hasWeeksOperation, { nowMs });
      if (isReady || tries === PARTITION_TRIES) {
        log.warn({ error: error.message }, 'partitions not created at startup; housekeeping will create them');
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, PARTITION_PAUSE_MS));
    }
  }
}

/** Opens the hints between processes that share the database. */
export async function openHints({ databaseUrl }: Pick<Config, 'databaseUrl'>, log: Log): Promise<Hints> {
  if (databaseUrl === undefined) return noHints;
  const { openPostgresHints } = await import('../storage/postgres/hints.ts');
  return openPostgresHints({ address: databaseUrl, log });
}

function noteMigrations(log: Log, applied: string[]): void {
  if (applied.length > 0) log.info({ migrations: applied }, 'database migrated');
}

async function openEmbedded({
  directory,
  clock,
  log,
  onBroken,
  beforeMigration,
}: OpenDatabaseOptions): Promise<Database> {
  assertDatabaseNotLost(directory);
  assertLogWhole(directory.databaseFile);
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  try {
    await beforeMigration?.(connection);
    noteMigrations(log, migrateSqlite(connection, clock.now()));
  } finally {
    connection.close();
  }
  const database = await openSqliteDatabase({
    file: directory.databaseFile,
    operationsModule: moduleUrl('roles/operations').href,
    log,
    onBroken,
  });
  try {
    const taken = await database.execute(recoverOperation, clock.now());
    if (taken > 0) log.warn({ rows: taken }, 'work of a crashed process taken over');
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Opens the database that the settings name, migrated: the embedded one in the data directory, where leases left by a dead
 * process are taken over before anybody claims, since no other process can hold any; or a PostgreSQL server, where other nodes
 * may be at work and leases end by themselves.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config.ts';
import { hasWeeksOperation, makePartitionsOperation } from '../messages/messages.ts';
import { assertDatabaseNotLost, type DataDirectory } from '../storage/data-directory.ts';
import { type Database, type Hints, noHints } from '../storage/database.ts';
import { alignEventOrderOperation } from '../storage/meta-store.ts';
import { migrateSqlite } from '../storage/migrate.ts';
import { openSqlite } from '../storage/sqlite/connection.ts';
import { openSqliteDatabase } from '../storage/sqlite/database.ts';
import { assertLogWhole } from '../storage/sqlite/log-check.ts';
import { recoverOperation } from '../work/work.ts';

/** Where rows have no week yet. */
const PARTITION_TRIES = 5;
const PARTITION_PAUSE_MS = 1_000;

interface OpenDatabaseOptions {
  config: Pick<Config, 'databaseUrl'>;
  directory: DataDirectory;
  clock: Clock;
  log: Log;
  /** Storage can no longer be trusted: the process should end. A server that is away is no such case. */
  onBroken(reason: string): void;
}

/** Rejects with a sentence for the operator when it cannot be used. */
export async function openDatabase(options: OpenDatabaseOptions): Promise<Database> {
  const { config, clock, log } = options;
  if (config.databaseUrl === undefined) return openEmbedded(options);
  // Loaded where it is used: the embedded start must not pay for the client's memory.
  const { migratePostgres } = await import('../storage/postgres/migrate.ts');
  const { openPostgresDatabase } = await import('../storage/postgres/database.ts');
  await import('./operations.ts');
  const address = config.databaseUrl;
  noteMigrations(log, await migratePostgres({ address, log, nowMs: clock.now() }));
  const database = await openPostgresDatabase({ address, log });
  try {
    const isRestored = await database.execute(alignEventOrderOperation, null);
    if (isRestored) log.warn('database restored into another cluster; new events continue after the existing ones');
    await makePartitions(database, (database.clock ?? clock).now(), log);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Makes the weeks ahead. What holds a table (a dump, a vacuum, another node that makes them) does not keep the service from
 * starting: as long as the next rows have their place, housekeeping makes the rest; where they have none, they go into the
 * table for the rest after some tries.
 */
async function makePartitions(database: Database, nowMs: number, log: Log): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await database.execute(makePartitionsOperation, { nowMs });
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

/** How this process and the others that share its database tell each other of work. */
export async function openHints({ databaseUrl }: Pick<Config, 'databaseUrl'>, log: Log): Promise<Hints> {
  if (databaseUrl === undefined) return noHints;
  const { openPostgresHints } = await import('../storage/postgres/hints.ts');
  return openPostgresHints({ address: databaseUrl, log });
}

function noteMigrations(log: Log, applied: string[]): void {
  if (applied.length > 0) log.info({ migrations: applied }, 'database migrated');
}

async function openEmbedded({ directory, clock, log, onBroken }: OpenDatabaseOptions): Promise<Database> {
  assertDatabaseNotLost(directory);
  assertLogWhole(directory.databaseFile);
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  try {
    noteMigrations(log, migrateSqlite(connection, clock.now()));
  } finally {
    connection.close();
  }
  const database = await openSqliteDatabase({
    file: directory.databaseFile,
    operationsModule: new URL('./operations.ts', import.meta.url).href,
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

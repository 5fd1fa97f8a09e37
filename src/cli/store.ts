/**
 * The database for a command: opened directly, beside a running service if there is one. A database that does not exist
 * yet is made only by commands that begin one; one that waits for a migration is left to `migrate` and to the start of
 * the service, since another version may be serving it.
 */
import { existsSync } from 'node:fs';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import '../roles/operations.ts';
import type { Blobs } from '../storage/blobs.ts';
import { openDiskBlobs } from '../storage/blobs-disk.ts';
import { type DataDirectory, dataDirectory, prepareDataDirectory } from '../storage/data-directory.ts';
import { listMigrations, migrateSqlite } from '../storage/migrate.ts';
import { loadSecretKey } from '../storage/secret-key.ts';
import { openSqlite } from '../storage/sqlite-connection.ts';
import { type DirectDatabase, openDirect } from '../storage/sqlite-direct.ts';
import { CommandError } from './command.ts';

export interface CommandStore {
  directory: DataDirectory;
  database: DirectDatabase;
  blobs: Blobs;
  clock: Clock;
  /** The key that seals secrets; generated with the first use. */
  secretKey(): Promise<Buffer>;
}

export interface StoreOptions {
  config: Config;
  clock: Clock;
  /** Makes the database when there is none. */
  create?: boolean;
}

/** Opens the store, lets `use` work with it, and closes it whatever happens. */
export async function withStore<T>(options: StoreOptions, use: (store: CommandStore) => Promise<T>): Promise<T> {
  const { config, clock } = options;
  const directory = dataDirectory(config.dataDir, config.blobs.kind === 'disk' ? config.blobs.folder : undefined);
  if (existsSync(directory.databaseFile)) assertMigrated(directory);
  else if (options.create) migrate(config, clock.now());
  else {
    throw new CommandError(
      'NO_DATABASE',
      `there is no database in ${directory.path}; start the service once, run postrider migrate, or set POSTRIDER_DATA_DIR`,
    );
  }
  const database = openDirect(directory.databaseFile);
  try {
    return await use({
      directory,
      database,
      blobs: openDiskBlobs(directory.blobsFolder),
      clock,
      secretKey: () => loadSecretKey({ directory, database, configured: config.secretKey }),
    });
  } finally {
    await database.close();
  }
}

/** Makes the directory and the database as needed and brings it up to date; the names of what was applied. */
export function migrate(config: Config, nowMs: number): string[] {
  const directory = prepareDataDirectory(config.dataDir);
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  try {
    return migrateSqlite(connection, nowMs);
  } finally {
    connection.close();
  }
}

/** How many migrations wait; negative when the database is of a newer version. */
export function pendingMigrations(directory: DataDirectory): number {
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  try {
    const table = connection.get("SELECT 1 AS found FROM sqlite_master WHERE name = 'migration'");
    const done = table ? (connection.get('SELECT count(*) AS n FROM migration') as { n: number }).n : 0;
    return listMigrations('sqlite').length - done;
  } finally {
    connection.close();
  }
}

function assertMigrated(directory: DataDirectory): void {
  const pending = pendingMigrations(directory);
  if (pending === 0) return;
  throw new CommandError(
    'NOT_MIGRATED',
    pending > 0
      ? 'the database waits for a migration; run postrider migrate, or start this version of the service'
      : 'the database was migrated by a newer version of postrider; use that version',
  );
}

/**
 * Opens the database for a command: the embedded one, or the configured server, even while the service is running. A missing database, as
 * in a wrong folder, and one with pending migrations are errors: only `migrate` and the start of the service change it, because another
 * version may be running.
 */
import { existsSync, statSync } from 'node:fs';
import { changedBy, commandOrigin } from '../audit/audit.ts';
import { type Clock, iso, systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import type { Config } from '../config.ts';
import { openBlobStore } from '../roles/blob-store.ts';
import '../roles/operations.ts';
import { backUpBeforeUpgrade } from '../roles/upgrade-backup.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { type DataDirectory, dataDirectory, isWritable, prepareDataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import {
  type AppliedMigration,
  listMigrations,
  migrateSqlite,
  pendingMigration,
  recordedSqlite,
} from '../storage/migrate.ts';
import { shownAddress } from '../storage/postgres/url.ts';
import { loadSecretKey } from '../storage/secret-key.ts';
import { assertNotRestoring } from '../storage/sqlite/backup.ts';
import { openDirect, openSqlite, type SqliteConnection } from '../storage/sqlite/connection.ts';
import { type CommandCall, CommandError, type CommandOutcome, table } from './command.ts';

export interface CommandStore {
  directory: DataDirectory;
  database: Database;
  /** The connection to the embedded database; undefined on a server. */
  embedded: SqliteConnection | undefined;
  blobs: Blobs;
  clock: Clock;
  /** The key that seals secrets; generated on first use. */
  secretKey(): Promise<Buffer>;
}

export interface StoreOptions {
  config: Config;
  clock: Clock;
}

const PAGE_ROWS = 500;

export interface Page {
  /** Id of the last row of the previous page; null for the first page. */
  before: string | null;
  limit: number;
}

/** Reads all rows of a list, page by page. */
export async function readPages<T extends { id: string }>(read: (page: Page) => Promise<T[]>): Promise<T[]> {
  const all: T[] = [];
  for (;;) {
    const rows = await read({ before: all.at(-1)?.id ?? null, limit: PAGE_ROWS });
    all.push(...rows);
    if (rows.length < PAGE_ROWS) return all;
  }
}

/** Opens the store, passes it to `use`, and closes it in any case. */
export async function withStore<T>(options: StoreOptions, use: (store: CommandStore) => Promise<T>): Promise<T> {
  const { config, clock } = options;
  const directory = dataDirectory(config.dataDir, config.blobs.kind === 'disk' ? config.blobs.folder : undefined);
  await assertUsable(config, directory);
  const store = await openBlobStore(config, { directory, clock });
  try {
    const { database, embedded } = await openForCommand(config, directory);
    try {
      return await use({
        directory,
        database: changedBy(database, commandOrigin((database.clock ?? clock).now())),
        embedded,
        blobs: store.blobs,
        // Clock of a shared database, which all nodes and commands use.
        clock: database.clock ?? clock,
        secretKey: () => loadSecretKey({ directory, database, configured: config.secretKey }),
      });
    } finally {
      await database.close();
    }
  } finally {
    await store.stop();
  }
}

async function openForCommand(
  config: Config,
  directory: DataDirectory,
): Promise<{ database: Database; embedded: SqliteConnection | undefined }> {
  if (config.databaseUrl === undefined) {
    const database = openDirect(directory.databaseFile);
    return { database, embedded: database.connection };
  }
  prepareDataDirectory(config.dataDir);
  const { openPostgresDatabase } = await import('../storage/postgres/database.ts');
  const database = await openPostgresDatabase({ address: config.databaseUrl, log: silentLog, poolSize: 2 });
  return { database, embedded: undefined };
}

/** Throws if this user cannot write to the folder. A change of its owner would break a running service. */
function assertWritable({ path: folder }: DataDirectory): void {
  if (isWritable(folder)) return;
  const owner = ownerOf(folder);
  throw new CommandError(
    'NO_PERMISSION',
    owner === undefined
      ? `the folder ${folder} cannot be opened by this user; run the command as the user of the service, or set POSTRIDER_DATA_DIR`
      : `the folder ${folder} belongs to the user ${owner}; run the command as that user, or set POSTRIDER_DATA_DIR`,
  );
}

/** Undefined if a folder above cannot be opened. */
function ownerOf(folder: string): number | undefined {
  try {
    return statSync(folder).uid;
  } catch {
    return undefined;
  }
}

/** Throws if the database does not exist or has another version. */
async function assertUsable(config: Config, directory: DataDirectory): Promise<void> {
  if (config.databaseUrl === undefined) assertWritable(directory);
  if (config.databaseUrl === undefined && !existsSync(directory.databaseFile)) {
    assertNotRestoring(directory);
    throw new CommandError(
      'NO_DATABASE',
      `there is no database in ${directory.path}; start the service once, run postrider migrate, or set POSTRIDER_DATA_DIR`,
    );
  }
  const pending = await pendingMigrations(config, directory);
  if (pending === 0) return;
  throw new CommandError(
    'NOT_MIGRATED',
    pending > 0
      ? 'the database needs a migration; run postrider migrate, or start this version of the service'
      : 'the database was migrated by a newer version of postrider; use that version',
  );
}

interface Migrated {
  /** Names of the applied migrations. */
  applied: string[];
  /** The backup that was made before. */
  backup?: string;
}

/** Creates the directory and the database if needed and applies pending migrations. */
export async function migrate(config: Config, nowMs: number): Promise<Migrated> {
  const directory = prepareDataDirectory(
    config.dataDir,
    config.blobs.kind === 'disk' ? config.blobs.folder : undefined,
  );
  if (config.databaseUrl !== undefined) {
    const { migratePostgres } = await import('../storage/postgres/migrate.ts');
    return { applied: await migratePostgres({ address: config.databaseUrl, log: silentLog, nowMs }) };
  }
  assertNotRestoring(directory);
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  try {
    const backup = await backUpBeforeUpgrade(config, { connection, directory, clock: systemClock });
    return { applied: migrateSqlite(connection, nowMs), ...(backup !== undefined && { backup }) };
  } finally {
    connection.close();
  }
}

interface MigrateOptions {
  status?: boolean;
}

/** `postrider migrate`: creates the database if needed and applies pending migrations; with --status it only lists them. */
export async function migrateDatabase({
  config,
  clock,
  options,
}: CommandCall<MigrateOptions>): Promise<CommandOutcome> {
  const database = config.databaseUrl ? shownAddress(config.databaseUrl) : dataDirectory(config.dataDir).databaseFile;
  if (options.status) return migrationStatus(config, database);
  const { applied, backup } = await migrate(config, clock.now());
  const text = applied.length > 0 ? `applied ${applied.join(', ')}` : 'the database is up to date';
  if (backup === undefined) return { data: { database, applied }, text };
  return { data: { database, applied, backup }, text: `backed up to ${backup}\n${text}` };
}

/** Lists applied and pending migrations. Throws if a newer version or another program has migrated the database. */
async function migrationStatus(config: Config, database: string): Promise<CommandOutcome> {
  if (config.databaseUrl === undefined) assertWritable(dataDirectory(config.dataDir));
  const known = listMigrations(config.databaseUrl ? 'postgres' : 'sqlite');
  const recorded = await recordedMigrations(config, dataDirectory(config.dataDir));
  pendingMigration(known, recorded);
  const applied = recorded.map(({ name, appliedAtMs }) => ({ name, appliedAt: iso(appliedAtMs) }));
  const pending = known.slice(recorded.length).map(({ name }) => name);
  const rows = [
    ...applied.map(({ name, appliedAt }): [string, string] => [name, `applied ${appliedAt}`]),
    ...pending.map((name): [string, string] => [name, 'pending']),
  ];
  const summary = `${applied.length} applied, ${pending.length} pending in ${database}`;
  return { data: { database, applied, pending }, text: `${table(rows)}\n${summary}` };
}

/** Returns the number of pending migrations; negative if the database has a newer version. */
export async function pendingMigrations(config: Config, directory: DataDirectory): Promise<number> {
  const known = listMigrations(config.databaseUrl ? 'postgres' : 'sqlite');
  return known.length - (await recordedMigrations(config, directory)).length;
}

async function recordedMigrations(config: Config, directory: DataDirectory): Promise<AppliedMigration[]> {
  if (config.databaseUrl !== undefined) {
    const { recordedPostgres } = await import('../storage/postgres/migrate.ts');
    return recordedPostgres({ address: config.databaseUrl, log: silentLog });
  }
  // Opening a database that does not exist would create it.
  if (!existsSync(directory.databaseFile)) return [];
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  try {
    return recordedSqlite(connection);
  } finally {
    connection.close();
  }
}

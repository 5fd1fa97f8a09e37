/**
 * Implements `postrider backup | restore | export | import`. None of the files contains the secret key: store it separately. An export
 * copies an entire database with its content, so that it can move between the embedded database and a server. The export is a snapshot,
 * even while the service is running. Stop the service before a move: otherwise mail accepted after the export is missing, and mail sent
 * after the export is sent again by the new service. An import requires a database that no service uses.
 */
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { timeOfId } from '../base/ids.ts';
import { silentLog } from '../base/log.ts';
import type { Config } from '../config.ts';
import { makePartitions, PARTITION_MS } from '../messages/messages.ts';
import { openBlobStore } from '../roles/blob-store.ts';
import { countAll } from '../statistics/statistics.ts';
import { dataDirectory, prepareDataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import { recordBackup, recordScheduledBackup } from '../storage/kept-elsewhere.ts';
import {
  type Copied,
  countRows,
  openPortableFile,
  type PortableFile,
  type Progress,
  portableTables,
} from '../storage/portable-file.ts';
import type { PostgresAddress } from '../storage/postgres/url.ts';
import { assertSecretKeyFits } from '../storage/secret-key.ts';
import { type BackupResult, type BackupSource, backUp, removeDatabase, restore } from '../storage/sqlite/backup.ts';
import { type BackupTarget, backupName, openBackupTarget, surplusBackups } from './backup-target.ts';
import { type CommandCall, CommandError, type CommandOutcome, targetFile } from './command.ts';
import { migrate, withStore } from './store.ts';

const MAX_LISTED_BLOBS = 100;

interface BackupOptions {
  scheduled?: boolean;
}

export async function backUpStore(call: CommandCall<BackupOptions>): Promise<CommandOutcome> {
  if (call.options.scheduled) return backUpAsScheduled(call);
  const file = targetFile(call, 'backup');
  const backup = await withEmbedded(call, async (source, database) => {
    const result = await removingUnfinished((onPart) => backUp({ ...source, onPart }, file));
    if (result.lost.length === 0) await recordBackup(database, call.clock.now());
    return result;
  });
  return backupOutcome(call, { ...backup, file, where: file });
}

/**
 * Writes to POSTRIDER_BACKUP_URL and deletes the oldest scheduled backups. An incomplete backup counts too: lost content stays
 * lost, and without a limit such backups would fill the disk.
 */
async function backUpAsScheduled(call: CommandCall): Promise<CommandOutcome> {
  const target = await scheduledTarget(call);
  const file = backupName(call.clock.now());
  try {
    await target.clear();
    const backup = await withEmbedded(call, async (source, database) => {
      const written = target.pathOf(file);
      const result = await removingUnfinished(async (onPart) => {
        const completed = await backUp({ ...source, onPart }, written);
        if (target.isStaged) onPart(written);
        await target.store(file);
        return completed;
      });
      await recordScheduledBackup(database, call.clock.now());
      return result;
    });
    const kept = { names: await target.names(), made: file, keep: call.config.backupKeep, nowMs: call.clock.now() };
    for (const old of surplusBackups(kept)) await target.remove(old);
    return backupOutcome(call, { ...backup, file, where: `${file} in ${target.description}` });
  } finally {
    await target.close();
  }
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Runs `work`, which reports its temporary files. If a signal ends the process, removes these: they contain all mail. */
async function removingUnfinished<T>(work: (onPart: (file: string) => void) => Promise<T>): Promise<T> {
  const parts: string[] = [];
  const onSignal = (signal: NodeJS.Signals): void => {
    for (const part of parts) {
      try {
        removeDatabase(part);
      } catch {
        // The process ends anyway, and the operator sees the file.
      }
    }
    done();
    process.kill(process.pid, signal);
  };
  const done = (): void => {
    for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  try {
    return await work((file) => parts.push(file));
  } finally {
    done();
  }
}

function withEmbedded(
  call: CommandCall,
  work: (source: BackupSource, database: Database) => Promise<BackupResult>,
): Promise<BackupResult> {
  return withStore(call, ({ embedded, blobs, database }) => {
    if (embedded) return work({ connection: embedded, blobs }, database);
    throw notEmbedded(
      'postrider backup does not back up PostgreSQL; use pg_dump or base backups for the database and the tools of your blob store for the content, see docs/guides/backup.md',
    );
  });
}

interface CompletedBackup extends BackupResult {
  file: string;
  where: string;
}

function backupOutcome(call: CommandCall, { file, where, sizeBytes, blobs, lost }: CompletedBackup): CommandOutcome {
  const outcome = {
    data: { file, sizeBytes, blobs },
    text: `${where}: ${sizeBytes} bytes, ${blobs} blobs\nThe backup does not contain the secret key. Store a copy of secret.key or POSTRIDER_SECRET_KEY elsewhere.`,
  };
  return withLost(call, outcome, lost);
}

async function scheduledTarget({ config, clock, args }: CommandCall): Promise<BackupTarget> {
  if (args[0] !== undefined)
    throw new CommandError('INVALID_REQUEST', 'a file and --scheduled cannot be used together; omit one of them');
  const target = await openBackupTarget(config, clock);
  if (target) return target;
  throw new CommandError(
    'INVALID_REQUEST',
    '--scheduled requires POSTRIDER_BACKUP_URL; set it to the folder or bucket for backups',
  );
}

export async function restoreStore({ config, clock, args: [file = ''] }: CommandCall): Promise<CommandOutcome> {
  if (config.databaseUrl !== undefined) {
    throw notEmbedded(
      'restore writes to a data directory, but POSTRIDER_DATABASE_URL is set; use postrider import instead, or unset POSTRIDER_DATABASE_URL',
    );
  }
  if (config.blobs.kind !== 'disk') {
    throw notEmbedded(
      'restore writes content to files, but POSTRIDER_BLOB_URL is set; unset it and keep content in files, or use postrider import with PostgreSQL',
    );
  }
  const directory = dataDirectory(config.dataDir, config.blobs.folder);
  const { blobs } = restore(path.resolve(file), { directory, nowMs: clock.now() });
  return {
    data: { dataDir: directory.path, blobs },
    text: `restored the database and ${blobs} blobs to ${directory.path}\nBefore you start the service, copy the secret key to secret.key in that directory, or set POSTRIDER_SECRET_KEY.`,
  };
}

function notEmbedded(message: string): CommandError {
  return new CommandError('NOT_EMBEDDED', message);
}

/**
 * Adds the lost blobs to an outcome. If blobs were lost, the file remains, but stderr, the JSON output, and the exit code report that it is
 * incomplete.
 */
function withLost({ streams }: CommandCall, outcome: CommandOutcome, lost: readonly string[]): CommandOutcome {
  const keys = lost.slice(0, MAX_LISTED_BLOBS);
  const data = { ...outcome.data, complete: lost.length === 0, lost: { count: lost.length, keys } };
  if (lost.length === 0) return { ...outcome, data };
  const count = lost.length === 1 ? 'one blob' : `${lost.length} blobs`;
  const more = lost.length > keys.length ? `  and ${lost.length - keys.length} more\n` : '';
  streams.err(
    `postrider: ${count} in use ${lost.length === 1 ? 'is' : 'are'} missing or damaged in the blob store and could not be copied:\n${keys.map((key) => `  ${key}\n`).join('')}${more}`,
  );
  return {
    data,
    text: `${outcome.text}\nThe file is incomplete: ${count} could not be copied. stderr lists the missing content.`,
    exitCode: 1,
  };
}

const SHOW_EVERY_MS = 1_000;

/** Returns a function that prints progress on stderr at most once per second and at the end, and never on stdout. */
function shownProgress({ streams }: CommandCall): Progress {
  let shownAt = 0;
  return (name, done, total) => {
    const now = performance.now();
    if (done < total && now - shownAt < SHOW_EVERY_MS) return;
    shownAt = now;
    streams.err(`postrider: ${name} ${done}/${total}\n`);
  };
}

function outcome(file: string, { tables, blobs }: Copied, hint: string): CommandOutcome {
  const rows = Object.values(tables).reduce((sum, count) => sum + count, 0);
  return {
    data: { file, rows, blobs, tables },
    text: `${file}: ${rows} rows in ${Object.keys(tables).length} tables, ${blobs} blobs; the row counts match\n${hint}`,
  };
}

function directoryOf(config: Config) {
  return dataDirectory(config.dataDir, config.blobs.kind === 'disk' ? config.blobs.folder : undefined);
}

const MOVE_HINT =
  'The file is a snapshot. If you move the service, stop it before the export and do not start the old installation again; otherwise queued mail is sent twice.';

export async function exportStore(call: CommandCall): Promise<CommandOutcome> {
  const target = targetFile(call, 'export');
  return call.config.databaseUrl === undefined ? exportEmbedded(call, target) : exportServer(call, target);
}

async function exportEmbedded(call: CommandCall, target: string): Promise<CommandOutcome> {
  const progress = shownProgress(call);
  const copied = await withStore(call, async ({ embedded, blobs }) => {
    let counted: { name: string; rows: number }[] = [];
    const onSnapshot = (raw: DatabaseSync): void => {
      counted = portableTables(raw).map(({ name }) => ({ name, rows: countRows(raw, name) }));
    };
    const backup = await removingUnfinished((onPart) =>
      backUp({ connection: embedded!, blobs, progress, onSnapshot, onPart }, target),
    );
    const file = openPortableFile(target);
    try {
      for (const { name, rows } of counted) {
        const copiedRows = file.count(name);
        if (copiedRows !== rows)
          throw new Error(
            `the table ${name} has ${copiedRows} rows in ${target} instead of ${rows}; export again to another file`,
          );
        progress(name, copiedRows, rows);
      }
      const tables = Object.fromEntries(counted.map(({ name, rows }) => [name, rows]));
      return { tables, blobs: file.count('blob_backup'), lost: backup.lost };
    } finally {
      file.close();
    }
  });
  return withLost(call, outcome(target, copied, MOVE_HINT), copied.lost);
}

async function exportServer(call: CommandCall, target: string): Promise<CommandOutcome> {
  const { config, clock } = call;
  const { connectPostgres } = await import('../storage/postgres/connection.ts');
  const { exportFromPostgres } = await import('../storage/postgres/transfer.ts');
  const copied = await withStore(call, async ({ blobs, database }) => {
    // All events are counted first: the file stores the position up to which each log is counted, and PostgreSQL counts events in another
    // order.
    await countAll(database);
    const connection = await connectPostgres(config.databaseUrl!);
    try {
      const progress = shownProgress(call);
      const source = { client: connection.client, blobs, nowMs: clock.now(), progress };
      return await removingUnfinished((onPart) => exportFromPostgres({ ...source, onPart }, target));
    } finally {
      connection.destroy();
    }
  });
  return withLost(call, outcome(target, copied, MOVE_HINT), copied.lost);
}

export async function importStore(call: CommandCall): Promise<CommandOutcome> {
  const source = path.resolve(call.args[0] ?? '');
  return call.config.databaseUrl === undefined ? importEmbedded(call, source) : importServer(call, source);
}

function importEmbedded({ config, clock }: CommandCall, source: string): CommandOutcome {
  if (config.blobs.kind !== 'disk') {
    throw new CommandError(
      'NOT_EMBEDDED',
      'import into the embedded database writes content to files, but POSTRIDER_BLOB_URL is set; unset it for the import',
    );
  }
  const file = openPortableFile(source);
  const tables = Object.fromEntries(file.tables.map(({ name }) => [name, file.count(name)]));
  file.close();
  const { blobs } = restore(source, { directory: directoryOf(config), nowMs: clock.now() });
  return outcome(
    source,
    { tables, blobs },
    'Copy the secret key to secret.key in the data directory, or set POSTRIDER_SECRET_KEY.',
  );
}

/** Creates partitions for all weeks of the file and for new mail. A partition cannot be created after rows exist for its week. */
async function preparePartitions(address: PostgresAddress, file: PortableFile): Promise<void> {
  const { openPostgresDatabase } = await import('../storage/postgres/database.ts');
  const database = await openPostgresDatabase({ address, log: silentLog, poolSize: 1 });
  try {
    const weeks = new Set<number>();
    for (const { id } of file.raw.prepare('SELECT id FROM message').iterate()) {
      const createdMs = timeOfId(String(id));
      if (createdMs !== undefined) weeks.add(Math.floor(createdMs / PARTITION_MS) * PARTITION_MS);
    }
    await makePartitions(database, { nowMs: database.clock!.now(), importedMs: [...weeks] });
  } finally {
    await database.close();
  }
}

async function importServer(call: CommandCall, source: string): Promise<CommandOutcome> {
  const { config, clock } = call;
  const { connectPostgres } = await import('../storage/postgres/connection.ts');
  const { importIntoPostgres } = await import('../storage/postgres/transfer.ts');
  const file = openPortableFile(source);
  try {
    const directory = prepareDataDirectory(
      config.dataDir,
      config.blobs.kind === 'disk' ? config.blobs.folder : undefined,
    );
    const check = file.raw.prepare("SELECT value FROM meta WHERE key = 'secret-key-check'").get()?.value;
    assertSecretKeyFits({ directory, configured: config.secretKey }, typeof check === 'string' ? check : null);
    await migrate(config, clock.now());
    await preparePartitions(config.databaseUrl!, file);
    const store = await openBlobStore(config, { directory, clock });
    const connection = await connectPostgres(config.databaseUrl!);
    try {
      const progress = shownProgress(call);
      const copied = await importIntoPostgres({ file, client: connection.client, blobs: store.blobs, progress });
      return outcome(source, copied, 'Start the service with the same settings; it sends the queued mail.');
    } finally {
      connection.destroy();
      await store.stop();
    }
  } finally {
    file.close();
  }
}

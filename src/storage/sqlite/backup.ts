/**
 * Backups of SQLite: one SQLite file with the database as of one moment and every blob in the table `blob_backup`. The service keeps
 * running during a backup. The file is written under a temporary name, synced, and renamed. Blobs are read after the database, so that no
 * referenced blob is missed; one that was removed in the meantime belonged to content that was being deleted, and one that is missing or
 * damaged for another reason is reported. The secret key and first-run.json are not included: keep `secret.key` (or POSTRIDER_SECRET_KEY)
 * separately.
 *
 * A restored database sends what was queued when the backup was made: mail that was sent after it is sent again.
 */
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { randomText } from '../../base/ids.ts';
import { type Blobs, isBlobKey } from '../blobs/blobs.ts';
import { type CopiedBlobs, copyBlobs, NAMED_BY } from '../blobs/copy.ts';
import { MARK_NAME, OWN_META } from '../blobs/mark.ts';
import { type DataDirectory, holdDataDirectory, prepareDataDirectory } from '../data-directory.ts';
import { chownToOwner, syncDirectory, syncFile } from '../durable-file.ts';
import { type AppliedMigration, listMigrations, migrateSqlite, pendingMigration, recordedSqlite } from '../migrate.ts';
import { assertReadable, type Progress } from '../portable-file.ts';
import { openSqlite, type SqliteConnection } from './connection.ts';

/** More pages than any database has: the copy is one step and one snapshot, which writers cannot restart. */
const ALL_PAGES = 2_147_483_647;
/** Files that a directory can contain before a backup is restored into it. The key is stored there first. */
const ALLOWED_FILES = new Set(['secret.key', 'blobs', 'serving.lock']);
/** SQLite appends these to the name of a database for its temporary files. */
const TAILS = ['', '-wal', '-shm', '-journal'];
/** Errors of a file system without hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP']);

export interface BackupResult extends CopiedBlobs {
  sizeBytes: number;
}

export interface BackupSource {
  connection: SqliteConnection;
  blobs: Blobs;
  progress?: Progress;
  /** Called with the database while it shows the snapshot, regardless of concurrent writes. */
  onSnapshot?(raw: DatabaseSync): void;
  /** Called with the temporary file, which contains all mail, before it is created. */
  onPart?(part: string): void;
}

/** Writes a backup to a file that must not exist; the result lists what was lost. */
export async function backUp(source: BackupSource, file: string): Promise<BackupResult> {
  if (existsSync(file)) throw new Error(alreadyExists(file));
  const part = `${file}.${randomText(8)}.part`;
  source.onPart?.(part);
  // Created first, so that the copy is private from its first byte.
  createFile(part);
  try {
    await copyDatabase(source, part);
    const copied = await addBlobs(part, source);
    syncFile(part);
    giveFinalName(part, file);
    syncDirectory(path.dirname(path.resolve(file)));
    return { sizeBytes: statSync(file).size, ...copied };
  } catch (error) {
    removeDatabase(part);
    throw error;
  }
}

const alreadyExists = (file: string): string => `${file} already exists; choose another file name`;

/** Creates a private file. Throws an error for the operator if that is not possible. */
export function createFile(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    const folder = path.dirname(path.resolve(file));
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new Error(`the folder ${folder} does not exist; create it, or choose another one`);
    throw new Error(`a file in ${folder} cannot be created (${code}); check its permissions, or choose another folder`);
  }
}

/** Renames the complete backup. Two backups to the same file cannot both succeed, except on a file system without hard links. */
function giveFinalName(part: string, file: string): void {
  try {
    linkSync(part, file);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' || (NO_LINKS.has(code) && existsSync(file))) throw new Error(alreadyExists(file));
    if (!NO_LINKS.has(code)) throw error;
    renameSync(part, file);
  }
  rmSync(part, { force: true });
}

/** Removes a database file with the temporary files of SQLite. */
export function removeDatabase(file: string): void {
  for (const tail of TAILS) rmSync(`${file}${tail}`, { force: true });
}

/** Returns the file of the backup before the upgrade from this migration. A repeated attempt to upgrade replaces it. */
const upgradeBackup = (directory: DataDirectory, last: AppliedMigration): string =>
  path.join(directory.path, `postrider-before-upgrade-from-${last.name.slice(0, 4)}.backup`);

/**
 * Backs up a database that this version is about to migrate, and verifies the backup. Returns its file; undefined if the database is new or
 * needs no migration. Throws if the backup is not complete.
 */
export async function backUpBeforeMigration(
  source: BackupSource,
  directory: DataDirectory,
): Promise<string | undefined> {
  const recorded = recordedSqlite(source.connection);
  const last = recorded.at(-1);
  if (!last || !pendingMigration(listMigrations('sqlite'), recorded)) return undefined;
  const file = upgradeBackup(directory, last);
  const next = `${file}.new`;
  removeFiles(next);
  try {
    const { lost } = await backUp(source, next);
    assertBackup(next);
    if (lost.length > 0) {
      const count = lost.length === 1 ? 'one blob in use is' : `${lost.length} blobs in use are`;
      throw new Error(`${count} missing or damaged in the blob store`);
    }
    renameSync(next, file);
    syncDirectory(directory.path);
    return file;
  } catch (error) {
    removeFiles(next);
    throw new Error(
      `the backup before the upgrade failed, so nothing was migrated: ${(error as Error).message}; fix this, or set POSTRIDER_BACKUP_BEFORE_UPGRADE=off to upgrade without a backup`,
      { cause: error },
    );
  }
}

/** Removes the file, and the temporary files of backups to it that were interrupted. */
function removeFiles(file: string): void {
  const folder = path.dirname(file);
  for (const name of readdirSync(folder)) {
    if (name.startsWith(path.basename(file))) rmSync(path.join(folder, name));
  }
}

async function copyDatabase({ connection: { raw }, onSnapshot }: BackupSource, part: string): Promise<void> {
  // Both the reads and the copy use this transaction's snapshot.
  if (onSnapshot !== undefined) raw.exec('BEGIN');
  try {
    onSnapshot?.(raw);
    await backup(raw, part, { rate: ALL_PAGES });
  } finally {
    if (onSnapshot !== undefined) raw.exec('ROLLBACK');
  }
}

async function addBlobs(part: string, { connection, blobs, progress }: BackupSource): Promise<CopiedBlobs> {
  const copy = new DatabaseSync(part);
  try {
    copy.exec('PRAGMA journal_mode=DELETE');
    copy.exec('PRAGMA synchronous=OFF');
    const isNamed = (key: string): boolean =>
      NAMED_BY.some((sql) => connection.raw.prepare(sql('?')).get(key) !== undefined);
    return await copyBlobs(copy, { blobs, isNamed, ...(progress && { progress }) });
  } finally {
    copy.close();
  }
}

/** The database of a restore until it is complete. */
const restoringFile = ({ databaseFile }: DataDirectory): string => `${databaseFile}.restoring`;

/** Whether an earlier restore into this directory did not finish. */
const isInterrupted = (directory: DataDirectory): boolean =>
  !existsSync(directory.databaseFile) && existsSync(restoringFile(directory));

/** Throws an error for the operator if a restore did not finish: a service would start with an empty database. */
export function assertNotRestoring(directory: DataDirectory): void {
  if (!isInterrupted(directory)) return;
  throw new Error(
    `a restore into ${directory.path} is running or was interrupted; wait for it, or repeat it with postrider restore FILE`,
  );
}

/**
 * Removes what a failed restore wrote. If blobs of an interrupted one remain, so does the file that allows another repetition. It is
 * removed last, so that an interruption can be recognized.
 */
function removeRestored(directory: DataDirectory, written: readonly string[]): void {
  for (const key of written) rmSync(path.join(directory.blobsFolder, key), { force: true });
  for (const shard of new Set(written.map((key) => path.dirname(key)))) {
    const folder = path.join(directory.blobsFolder, shard);
    if (readdirSync(folder).length === 0) rmdirSync(folder);
  }
  if (readdirSync(directory.blobsFolder).length === 0) removeDatabase(restoringFile(directory));
}

/**
 * Restores a backup into a data directory that is empty except for its secret key. A restore that was interrupted can be repeated. Blobs
 * that were there before are never removed: they may belong to another service.
 */
export function restore(file: string, options: { directory: DataDirectory; nowMs: number }): { blobs: number } {
  const { directory } = options;
  assertBackup(file);
  prepareDataDirectory(directory.path, directory.blobsFolder);
  const hold = holdDataDirectory(directory);
  try {
    assertEmpty(directory);
    const part = restoringFile(directory);
    const written: string[] = [];
    try {
      for (const tail of TAILS) if (tail !== '') rmSync(`${part}${tail}`, { force: true });
      copyFileSync(file, part);
      chmodSync(part, 0o600);
      const blobs = extractBlobs(part, directory.blobsFolder, written);
      const connection = openSqlite(part, { readOnly: false });
      try {
        migrateSqlite(connection, options.nowMs);
      } finally {
        connection.close();
      }
      syncFile(part);
      renameSync(part, directory.databaseFile);
      chownToOwner(directory.path, [directory.blobsFolder]);
      syncDirectory(directory.path);
      return { blobs };
    } catch (error) {
      removeRestored(directory, written);
      throw error;
    }
  } finally {
    hold.release();
  }
}

/** An interrupted restore may have left its database, and blobs in the directory. No service has used these: it would have marked them. */
function assertEmpty(directory: DataDirectory): void {
  const isRepeated = isInterrupted(directory);
  const left = isRepeated ? TAILS.map((tail) => path.basename(`${restoringFile(directory)}${tail}`)) : [];
  const others = readdirSync(directory.path).filter((name) => !ALLOWED_FILES.has(name) && !left.includes(name));
  if (others.length > 0) {
    throw new Error(`${directory.path} is not empty; restore into a new directory that contains at most secret.key`);
  }
  const { blobsFolder } = directory;
  const blobs = readdirSync(blobsFolder);
  const isInside = realpathSync(blobsFolder).startsWith(`${realpathSync(directory.path)}${path.sep}`);
  if (blobs.length === 0 || (isRepeated && isInside && !blobs.includes(MARK_NAME))) return;
  throw new Error(
    isInside && !isRepeated
      ? `${directory.path} is not empty; restore into a new directory that contains at most secret.key`
      : `${blobsFolder} contains content that may belong to another service; restore into a new directory`,
  );
}

function assertBackup(file: string): void {
  assertReadable(file);
  let tables: string[] = [];
  try {
    const copy = new DatabaseSync(file, { readOnly: true });
    try {
      const rows = copy.prepare("SELECT name FROM sqlite_master WHERE name IN ('migration', 'blob_backup')").all();
      tables = rows.map((row) => String(row.name));
      const check = copy.prepare('PRAGMA quick_check(1)').get();
      if (Object.values(check ?? {})[0] !== 'ok') tables = [];
    } finally {
      copy.close();
    }
  } catch {
    // The error below covers this.
  }
  if (tables.length !== 2) throw new Error(`${file} is not a complete backup of postrider backup`);
}

/** Adds the keys of new files to `written` before it creates them. */
function extractBlobs(part: string, folder: string, written: string[]): number {
  const copy = new DatabaseSync(part);
  try {
    let count = 0;
    const shards = new Set<string>();
    for (const row of copy.prepare('SELECT key, content FROM blob_backup').iterate()) {
      const key = String(row.key);
      if (!isBlobKey(key)) throw new Error('the backup contains a blob with an invalid key; restore another backup');
      const target = path.join(folder, key);
      mkdirSync(path.dirname(target), { recursive: true, mode: 0o700 });
      const content = row.content as Uint8Array;
      // Keys are random, so an existing file is the same blob, written by an interrupted restore and possibly incomplete.
      if (!existsSync(target)) written.push(key);
      writeFileSync(target, content, { mode: 0o600 });
      syncFile(target);
      shards.add(path.dirname(target));
      count += 1;
    }
    for (const shard of [...shards, folder]) syncDirectory(shard);
    copy.exec('DROP TABLE blob_backup');
    // The file's id of its blob store does not apply here.
    copy.exec(`DELETE FROM meta WHERE key IN ${OWN_META}`);
    copy.exec('VACUUM');
    return count;
  } finally {
    copy.close();
  }
}

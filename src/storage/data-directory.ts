/**
 * The data directory: created with mode 0700, and held by one serving process at a time. The hold is an exclusive lock of the operating
 * system on a file next to the database, so it ends with the process in any case.
 *
 * Also measures the free space on a disk. Below a limit, intake stops first, while deliveries still have space to record their results.
 */
import { accessSync, chmodSync, constants, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { notWritable } from './not-writable.ts';
import { describeStorageError, isStorageError } from './sqlite/errors.ts';

export interface DataDirectory {
  path: string;
  databaseFile: string;
  blobsFolder: string;
}

/** Returns the paths in a data directory; blobs are in it unless a separate folder is configured. */
export function dataDirectory(folder: string, blobsFolder?: string): DataDirectory {
  const absolute = path.resolve(folder);
  return {
    path: absolute,
    databaseFile: path.join(absolute, 'postrider.db'),
    blobsFolder: blobsFolder === undefined ? path.join(absolute, 'blobs') : path.resolve(blobsFolder),
  };
}

/** Creates the directory if it is missing. Throws with the system's reason if it cannot be used. */
export function prepareDataDirectory(folder: string, blobsFolder?: string): DataDirectory {
  const directory = dataDirectory(folder, blobsFolder);
  makeFolder(directory.path);
  assertWritable(directory.path);
  closeEmptyFolder(directory.path);
  makeFolder(directory.blobsFolder);
  assertWritable(directory.blobsFolder);
  closeToOthers(directory.databaseFile);
  return directory;
}

/** Throws an error for the operator if this user cannot write to the folder. */
function assertWritable(folder: string): void {
  if (isWritable(folder)) return;
  const { why, remedy } = notWritable(folder, folder);
  throw new Error(`the folder ${why}; ${remedy}`);
}

/** False if the folder exists and this user lacks permissions for it. */
export function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EACCES';
  }
}

/**
 * Restricts an empty folder to the service's user, as if it had been created here. The image has a data directory that every user can
 * write to, so that a container can run as any user.
 */
function closeEmptyFolder(folder: string): void {
  const { uid, mode } = statSync(folder);
  if (uid !== process.getuid?.() || (mode & 0o002) === 0) return;
  if (readdirSync(folder).length === 0) chmodSync(folder, 0o700);
}

/** Restricts the database files to the service's user even if others may read the directory: they hold mail and password hashes. */
function closeToOthers(databaseFile: string): void {
  for (const file of ['', '-wal', '-shm'].map((end) => databaseFile + end)) {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined || (found.mode & 0o077) === 0) continue;
    try {
      chmodSync(file, 0o600);
    } catch (error) {
      // The file belongs to another user, who shares it through the group.
      if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
    }
  }
}

/**
 * Creates a folder and its parents, trying each at most twice: Node's recursive mkdir never ends if the system keeps reporting a missing
 * folder, as /proc does.
 */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(folder).isDirectory()) return;
    const above = path.dirname(folder);
    if (code !== 'ENOENT' || above === folder || existsSync(above)) throw new Error(cannotCreate(folder, code));
    makeFolder(above);
    makeFolder(folder);
  }
}

function cannotCreate(folder: string, code: string | undefined): string {
  const elsewhere = 'or choose another POSTRIDER_DATA_DIR';
  const above = path.dirname(folder);
  const remedies: Record<string, string> = {
    EEXIST: `(a file with this name exists); move that file away, ${elsewhere}`,
    ENOTDIR: `(${above} is not a folder); move that file away, ${elsewhere}`,
    EACCES: `(this user cannot write to ${above}); change its owner to the user of the service, ${elsewhere}`,
    EPERM: `(this user cannot write to ${above}); change its owner to the user of the service, ${elsewhere}`,
    EROFS: `(the file system is mounted read-only); mount it read-write, ${elsewhere}`,
    EIO: '(EIO: the disk stopped responding); check the disk and the system log',
  };
  return `the folder ${folder} cannot be created ${remedies[code ?? ''] ?? `(${code}); choose another POSTRIDER_DATA_DIR`}`;
}

/** Files that a data directory contains, in addition to the database file, after a service has used it. */
const SERVICE_FILES = ['secret.key', 'first-run.json', 'postrider.db-wal'];
/** Blob folders are named by two letters or digits. */
const SHARD = /^[0-9A-Za-z]{2}$/;

/**
 * Refuses a directory whose database is missing or empty although other files remain: starting would create a new database and silently
 * lose all queued mail. Throws an error for the operator. An interrupted first start leaves none of these files.
 */
export function assertDatabaseNotLost(directory: DataDirectory): void {
  const size = statSync(directory.databaseFile, { throwIfNoEntry: false })?.size;
  if (size !== undefined && size > 0) return;
  const left = SERVICE_FILES.filter((name) => sizeOf(path.join(directory.path, name)) > 0);
  if (hasServed(directory.path)) left.push(HOLD);
  if (hasBlobs(directory.blobsFolder)) left.push('blobs');
  if (left.length === 0) return;
  const file = path.basename(directory.databaseFile);
  throw new Error(
    `the database ${directory.databaseFile} is ${size === 0 ? 'empty (0 bytes)' : 'missing'}, but ${directory.path} was in use (it has ${left.join(', ')}). ` +
      `Put ${file} back, or set POSTRIDER_DATA_DIR to a new directory and run: postrider restore FILE. ` +
      'If the service ran on PostgreSQL, set POSTRIDER_DATABASE_URL. To start with an empty service, use a new directory',
  );
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function hasBlobs(folder: string): boolean {
  if (!existsSync(folder)) return false;
  return readdirSync(folder).some((name) => SHARD.test(name) && readdirSync(path.join(folder, name)).length > 0);
}

const HOLD = 'serving.lock';

/** Returns whether a service has opened its database here: the lock file is empty until then. */
function hasServed(folder: string): boolean {
  return sizeOf(path.join(folder, HOLD)) > 0;
}

/** Returns whether a process has ever tried to serve this directory, which need not exist. */
export function hasEverServed(folder: string): boolean {
  return existsSync(path.join(folder, HOLD));
}

const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** The exclusive right of one process to serve a data directory. */
export interface Hold {
  /** Records in the lock file that the directory has a database, so that the next start notices if it is lost. */
  noteDatabase(): void;
  release(): void;
}

/** Acquires the hold for a serving process, or throws an error for the operator. */
export function holdDataDirectory(directory: DataDirectory): Hold {
  const file = path.join(directory.path, HOLD);
  const lock = openLock(file);
  try {
    lock.exec('PRAGMA locking_mode=EXCLUSIVE');
    lock.exec('PRAGMA journal_mode=MEMORY');
    lock.exec('BEGIN EXCLUSIVE');
    chmodSync(file, 0o600);
  } catch (error) {
    lock.close();
    const { errcode = 0 } = error as { errcode?: number };
    if ((errcode & 0xff) === SQLITE_NOTADB || (errcode & 0xff) === SQLITE_CORRUPT) {
      // A power failure tore the one page that noteDatabase writes; the file holds nothing else.
      rmSync(file);
      return holdDataDirectory(directory);
    }
    if ((errcode & 0xff) === SQLITE_BUSY) {
      throw new Error(
        `another postrider process is already serving ${directory.path}; stop it, or choose another POSTRIDER_DATA_DIR`,
      );
    }
    throw isStorageError(error) ? new Error(describeStorageError(error, file), { cause: error }) : error;
  }
  return {
    noteDatabase: () => {
      if (sizeOf(file) > 0) return;
      try {
        // The lock outlives the transaction, until the file is closed.
        lock.exec('PRAGMA user_version = 1; COMMIT; BEGIN EXCLUSIVE');
      } catch (error) {
        // If the disk is full, the other files of the directory show that a service has run.
        if (!isStorageError(error)) throw error;
      }
    },
    release: () => lock.close(),
  };
}

function openLock(file: string): DatabaseSync {
  try {
    return new DatabaseSync(file, { timeout: 0 });
  } catch (error) {
    throw isStorageError(error) ? new Error(describeStorageError(error, file), { cause: error }) : error;
  }
}

/** Intake stops below this number of free inodes, if the file system counts them. */
const MIN_FREE_INODES = 1_000;

export interface FreeSpace {
  /** Bytes that an unprivileged process can still write; undefined if the file system cannot be queried. */
  freeBytes: number | undefined;
  /** Why there is too little space; undefined if there is enough. */
  shortage: string | undefined;
  /** Free space is below twice the limit at which intake stops; the remainder is reserved for customers' mail. */
  isScarce: boolean;
}

interface DiskMarks {
  freeBytes: number;
  /** The smaller of the setting and 10 % of the disk. */
  neededBytes: number;
  freeInodes: number;
  /** The smaller of 1,000 and 10 %; 0 if the file system does not count them. */
  neededInodes: number;
}

/** Returns the free space under `folder` and the limits below which intake stops. Rejects if the file system cannot be queried. */
export async function marksOf(folder: string, minFreeBytes: number): Promise<DiskMarks> {
  const { bsize, blocks, bavail, files, ffree } = await statfs(folder);
  return {
    freeBytes: bavail * bsize,
    neededBytes: Math.min(minFreeBytes, (blocks * bsize) / 10),
    freeInodes: ffree,
    neededInodes: Math.min(MIN_FREE_INODES, files / 10),
  };
}

/** Checks the disk under `folder`. It is short below one of the limits, or if the file system cannot be queried. */
export async function freeSpace(folder: string, minFreeBytes: number): Promise<FreeSpace> {
  try {
    const { freeBytes, neededBytes, freeInodes, neededInodes } = await marksOf(folder, minFreeBytes);
    let shortage: string | undefined;
    if (freeBytes < neededBytes) {
      const [free, needed] = [freeBytes, neededBytes].map((bytes) => Math.round(bytes / 1e6));
      shortage = `the disk has ${free} MB free, but ${needed} MB are needed`;
    } else if (freeInodes < neededInodes) {
      shortage = `the disk has ${freeInodes} inodes free, but ${Math.ceil(neededInodes)} are needed`;
    }
    return { freeBytes, shortage, isScarce: freeBytes < 2 * neededBytes };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
    return {
      freeBytes: undefined,
      shortage: `the free space of the disk cannot be determined: ${code}`,
      isScarce: true,
    };
  }
}

/**
 * The data directory: made with mode 0700, and held by one serving process at a time. The hold is an exclusive lock of the
 * operating system on a file beside the database, so that it ends with the process however that ends.
 *
 * How much room the disk under a folder has, and whether that is too little to promise anything. Intake stops first, while
 * deliveries still have the room to record their results.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describeStorageError, isStorageError } from './sqlite/errors.ts';

export interface DataDirectory {
  path: string;
  databaseFile: string;
  blobsFolder: string;
}

/** The paths in a data directory; blobs are in it unless a folder of their own is configured. */
export function dataDirectory(folder: string, blobsFolder?: string): DataDirectory {
  const absolute = path.resolve(folder);
  return {
    path: absolute,
    databaseFile: path.join(absolute, 'postrider.db'),
    blobsFolder: blobsFolder === undefined ? path.join(absolute, 'blobs') : path.resolve(blobsFolder),
  };
}

/** Makes the directory if it is missing. Throws with the system's reason when it cannot be used. */
export function prepareDataDirectory(folder: string, blobsFolder?: string): DataDirectory {
  const directory = dataDirectory(folder, blobsFolder);
  makeFolder(directory.path);
  makeFolder(directory.blobsFolder);
  closeToOthers(directory.databaseFile);
  return directory;
}

/** The database of a directory that others may read holds mail and hashes of passwords all the same: its files are for us alone. */
function closeToOthers(databaseFile: string): void {
  for (const file of ['', '-wal', '-shm'].map((end) => databaseFile + end)) {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined || (found.mode & 0o077) === 0) continue;
    try {
      chmodSync(file, 0o600);
    } catch (error) {
      // A file of another user, which we may use by the group: its owner decided so.
      if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
    }
  }
}

/**
 * A folder and those above it, each tried twice at most: Node's own recursive mkdir never ends where the system says
 * that a folder is missing whatever is made above it, as /proc does.
 */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(folder).isDirectory()) return;
    const above = path.dirname(folder);
    if (code !== 'ENOENT' || above === folder || existsSync(above)) throw new Error(cannotMake(folder, code));
    makeFolder(above);
    makeFolder(folder);
  }
}

function cannotMake(folder: string, code: string | undefined): string {
  const elsewhere = 'or choose another POSTRIDER_DATA_DIR';
  const above = path.dirname(folder);
  const remedies: Record<string, string> = {
    EEXIST: `(a file is in its place); move that file away, ${elsewhere}`,
    ENOTDIR: `(${above} is not a folder); move that file away, ${elsewhere}`,
    EACCES: `(this user may not write to ${above}); chown that to the user of the service, ${elsewhere}`,
    EPERM: `(this user may not write to ${above}); chown that to the user of the service, ${elsewhere}`,
    EROFS: `(the file system is mounted read-only); mount it for writing, ${elsewhere}`,
    EIO: '(EIO: the disk stopped answering); look at the disk and at the log of the system',
  };
  return `the folder ${folder} cannot be made ${remedies[code ?? ''] ?? `(${code}); choose another POSTRIDER_DATA_DIR`}`;
}

/** What a data directory holds, besides the database file, once a service has run on it. */
const BELONGINGS = ['secret.key', 'first-run.json', 'postrider.db-wal'];
/** The folders of blobs are named by two letters or digits. */
const SHARD = /^[0-9A-Za-z]{2}$/;

/**
 * Refuses a directory whose database is missing or empty while the rest of it is still there: a start would make a new one and
 * forget all queued mail without a word. Throws a sentence for the operator. A first start that was interrupted leaves none of these.
 */
export function assertDatabaseNotLost(directory: DataDirectory): void {
  const size = statSync(directory.databaseFile, { throwIfNoEntry: false })?.size;
  if (size !== undefined && size > 0) return;
  const left = BELONGINGS.filter((name) => sizeOf(path.join(directory.path, name)) > 0);
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

/** Whether a service once had its database open here: the hold is empty until then. */
function hasServed(folder: string): boolean {
  return sizeOf(path.join(folder, HOLD)) > 0;
}

/** Whether a process has ever tried to serve this directory, which need not exist. */
export function hasEverServed(folder: string): boolean {
  return existsSync(path.join(folder, HOLD));
}

const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** The right of one process to serve a data directory. */
export interface Hold {
  /** Notes in the file of the hold that the directory has a database, so that its loss is noticed at the next start. */
  noteDatabase(): void;
  release(): void;
}

/** Takes the hold for a serving process, or throws a sentence for the operator. */
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
      // A power cut tore the one page that noteDatabase writes; nothing else is in the file.
      rmSync(file);
      return holdDataDirectory(directory);
    }
    if ((errcode & 0xff) === SQLITE_BUSY) {
      throw new Error(
        `another postrider is already serving ${directory.path}; stop it, or choose another POSTRIDER_DATA_DIR`,
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
        // A full disk: the other files of the directory say as much.
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

/** Inodes below which intake stops, where the file system counts them. */
const MIN_FREE_INODES = 1_000;

export interface FreeSpace {
  /** What an ordinary process may still write; undefined where the file system cannot be asked. */
  freeBytes: number | undefined;
  /** Why there is too little. */
  shortage: string | undefined;
  /** Less than twice the bytes below which intake stops: kept for what customers send. */
  isScarce: boolean;
}

interface Marks {
  freeBytes: number;
  /** The smaller of the setting and 10 % of the disk. */
  neededBytes: number;
  freeInodes: number;
  /** The smaller of 1,000 and 10 %; 0 where the file system does not count them. */
  neededInodes: number;
}

/** What is free on the disk under `folder`, and the marks below which intake stops. Rejects when the file system cannot be asked. */
export async function marksOf(folder: string, minFreeBytes: number): Promise<Marks> {
  const { bsize, blocks, bavail, files, ffree } = await statfs(folder);
  return {
    freeBytes: bavail * bsize,
    neededBytes: Math.min(minFreeBytes, (blocks * bsize) / 10),
    freeInodes: ffree,
    neededInodes: Math.min(MIN_FREE_INODES, files / 10),
  };
}

/** Looks at the disk under `folder`. It is short below one of the marks; a file system that cannot be asked counts as short. */
export async function freeSpace(folder: string, minFreeBytes: number): Promise<FreeSpace> {
  try {
    const { freeBytes, neededBytes, freeInodes, neededInodes } = await marksOf(folder, minFreeBytes);
    let shortage: string | undefined;
    if (freeBytes < neededBytes) {
      const [free, needed] = [freeBytes, neededBytes].map((bytes) => Math.round(bytes / 1e6));
      shortage = `the disk has ${free} MB free, and ${needed} MB are needed`;
    } else if (freeInodes < neededInodes) {
      shortage = `the disk has ${freeInodes} inodes free, and ${Math.ceil(neededInodes)} are needed`;
    }
    return { freeBytes, shortage, isScarce: freeBytes < 2 * neededBytes };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
    return { freeBytes: undefined, shortage: `the disk cannot be asked for its free space: ${code}`, isScarce: true };
  }
}

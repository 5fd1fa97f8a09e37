/**
 * The data directory: made with mode 0700, and held by one serving process at a time. The hold is an exclusive lock of the
 * operating system on a file beside the database, so that it ends with the process however that ends.
 *
 * How much room the disk under a folder has, and whether that is too little to promise anything. Intake stops first, while
 * deliveries still have the room to record their results.
 */
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs';
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

/**
 * Refuses a directory whose database is gone while what belongs to it is still there: starting on an empty one would
 * forget all queued mail in silence. Throws a sentence for the operator.
 */
export function assertDatabaseNotLost(directory: DataDirectory): void {
  if (existsSync(directory.databaseFile)) return;
  const left = ['first-run.json', 'secret.key'].filter((name) => existsSync(path.join(directory.path, name)));
  if (left.length < 2) return;
  throw new Error(
    `${directory.path} has ${left.join(' and ')}, but its database postrider.db is gone; restore a backup, or move these files away to begin again`,
  );
}

const HOLD = 'serving.lock';

/** Whether a process has ever tried to serve this directory, which need not exist. */
export function hasEverServed(folder: string): boolean {
  return existsSync(path.join(folder, HOLD));
}

/** Takes the hold for a serving process, or throws a sentence for the operator. The result releases it. */
export function holdDataDirectory(directory: DataDirectory): () => void {
  const file = path.join(directory.path, HOLD);
  const lock = openLock(file);
  try {
    lock.exec('PRAGMA locking_mode=EXCLUSIVE');
    lock.exec('PRAGMA journal_mode=MEMORY');
    lock.exec('BEGIN EXCLUSIVE');
    chmodSync(file, 0o600);
  } catch (error) {
    lock.close();
    const { errcode } = error as { errcode?: number };
    if (errcode !== undefined && (errcode & 0xff) === 5) {
      throw new Error(
        `another postrider is already serving ${directory.path}; stop it, or choose another POSTRIDER_DATA_DIR`,
      );
    }
    throw isStorageError(error) ? new Error(describeStorageError(error, file), { cause: error }) : error;
  }
  return () => lock.close();
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

/**
 * The data directory: made with mode 0700, and held by one serving process at a time. The hold is an exclusive lock of
 * the operating system on a file beside the database, so that it ends with the process however that ends.
 */
import { chmodSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';

export interface DataDirectory {
  path: string;
  databaseFile: string;
  blobsFolder: string;
}

/** The places in a data directory; blobs are in it unless a folder of their own is configured. */
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
  mkdirSync(directory.path, { recursive: true, mode: 0o700 });
  mkdirSync(directory.blobsFolder, { recursive: true, mode: 0o700 });
  return directory;
}

/** Takes the hold for a serving process, or throws a sentence for the operator. The result releases it. */
export function holdDataDirectory(directory: DataDirectory): () => void {
  const file = path.join(directory.path, 'serving.lock');
  const lock = new DatabaseSync(file, { timeout: 0 });
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
    throw error;
  }
  return () => lock.close();
}

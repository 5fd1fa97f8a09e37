/**
 * Explains SQLite errors to the operator in one sentence. SQLite's own texts mislead twice: a read that the disk refuses is reported as
 * "database disk image is malformed" although the file may be intact, and "unable to open database file" names neither the file nor the
 * cause.
 */
import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { notWritable } from '../not-writable.ts';

/** SQLite's primary result codes. */
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const CANTOPEN = 14;
const NOTADB = 26;

/** Extended codes of IOERR, and the step that failed. */
const STEPS = new Map([
  [266, 'a read failed'],
  [522, 'a read returned too few bytes'],
  [778, 'a write failed'],
  [1034, 'a sync failed'],
  [1290, 'the sync of its directory failed'],
  [1546, 'the file could not be truncated'],
  [4874, 'the shared memory file could not be extended'],
]);
const READ_BYTES = 1_048_576;
/** Time limit: reading a large file takes long, and a missing disk shows immediately. */
const CHECK_MS = 2_000;

const primaryCode = (error: unknown): number | undefined => {
  const { errcode } = error as { errcode?: number };
  return errcode === undefined ? undefined : errcode & 0xff;
};

/** Returns whether storage can no longer be trusted after this error. */
export function isStorageError(error: unknown): boolean {
  return [READONLY, IOERR, CORRUPT, CANTOPEN, NOTADB].includes(primaryCode(error) ?? -1);
}

/** Returns the explanation of such an error for this database file, or SQLite's own text for any other. May read the file. */
export function describeStorageError(error: unknown, file: string): string {
  const { message, errcode } = error as { message: string; errcode?: number };
  const primary = primaryCode(error);
  if (primary === IOERR) return stopped(`${STEPS.get(errcode ?? 0) ?? message} on ${file}`);
  if (primary === CANTOPEN || primary === READONLY) return cannotOpen(file, message);
  if (primary === CORRUPT || primary === NOTADB) {
    const unread = describeReadError(file) ?? describeReadError(`${file}-wal`);
    if (unread !== undefined) return stopped(unread);
    return `${file} is damaged, or the disk failed for a moment (${message}); check the disk, restart, and restore a backup if this happens again`;
  }
  return message;
}

const stopped = (what: string): string => `the disk stopped responding: ${what}`;

/** Reads the file, with a time limit; returns undefined if it can be read or does not exist. */
function describeReadError(file: string): string | undefined {
  const end = performance.now() + CHECK_MS;
  const piece = Buffer.allocUnsafe(READ_BYTES);
  let handle: number | undefined;
  try {
    handle = openSync(file, 'r');
    while (performance.now() < end && readSync(handle, piece) > 0);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? undefined : `${code} while reading ${file}`;
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

/** Returns why an existing file cannot be written; SQLite would open it for reading and fail at the first change. */
export function describeWriteError(file: string): string | undefined {
  try {
    accessSync(file, constants.W_OK);
    return undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code === 'EACCES' || code === 'EROFS' ? cannotOpen(file, message) : undefined;
  }
}

/** Explains why the file cannot be opened for writing, and what to do. */
function cannotOpen(file: string, message: string): string {
  const folder = path.dirname(file);
  const explained = (why: string, remedy: string): string => `${file} cannot be opened: ${why}; ${remedy}`;
  const elsewhere = 'or choose another POSTRIDER_DATA_DIR';
  try {
    const found = statSync(folder, { throwIfNoEntry: false });
    if (found === undefined) return explained(`the folder ${folder} does not exist`, `create it, ${elsewhere}`);
    if (!found.isDirectory()) return explained(`${folder} is not a folder`, `move that file away, ${elsewhere}`);
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    for (const one of [file, `${file}-wal`, `${file}-shm`]) {
      const existing = statSync(one, { throwIfNoEntry: false });
      if (existing === undefined) continue;
      if (!existing.isFile()) return explained(`${one} is not a file`, 'move it away');
      accessSync(one, constants.R_OK | constants.W_OK);
    }
  } catch (error) {
    const { code, path: where = folder } = error as NodeJS.ErrnoException;
    if (code === 'EROFS') return explained('the file system is mounted read-only', `mount it read-write, ${elsewhere}`);
    if (code === 'EACCES' || code === 'EPERM') {
      const { why, remedy } = notWritable(where, folder);
      return explained(why, remedy);
    }
    if (code === 'EIO') return stopped(`EIO at ${where}`);
    return explained(`${code} at ${where}`, elsewhere.slice(3));
  }
  return explained(message, `check the disk and the limit of open files, ${elsewhere}`);
}

/**
 * What an error of SQLite means to the operator, in one sentence. SQLite's own words mislead twice: a read that the disk refuses
 * comes out as "database disk image is malformed" though the file may be whole, and "unable to open database file" names
 * neither the file nor what is in the way.
 */
import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import path from 'node:path';

/** SQLite's primary result codes. */
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const CANTOPEN = 14;
const NOTADB = 26;

/** Extended codes of IOERR whose step is worth naming. */
const STEPS = new Map([
  [266, 'a read failed'],
  [522, 'a read came back short'],
  [778, 'a write failed'],
  [1034, 'a sync failed'],
  [1290, 'the sync of its directory failed'],
  [1546, 'the file could not be cut'],
  [4874, 'the shared memory file could not be grown'],
]);
const READ_BYTES = 1_048_576;
/** Reading a large file to its end takes long, and a disk that is gone shows at once. */
const LOOK_MS = 2_000;

const primaryCode = (error: unknown): number | undefined => {
  const { errcode } = error as { errcode?: number };
  return errcode === undefined ? undefined : errcode & 0xff;
};

/** Whether storage can no longer be trusted after this error. */
export function isStorageError(error: unknown): boolean {
  return [READONLY, IOERR, CORRUPT, CANTOPEN, NOTADB].includes(primaryCode(error) ?? -1);
}

/** The sentence for such an error over this database file; SQLite's own words for any other. May read the file. */
export function describeStorageError(error: unknown, file: string): string {
  const { message, errcode } = error as { message: string; errcode?: number };
  const primary = primaryCode(error);
  if (primary === IOERR) return stopped(`${STEPS.get(errcode ?? 0) ?? message} on ${file}`);
  if (primary === CANTOPEN || primary === READONLY) return cannotOpen(file, message);
  if (primary === CORRUPT || primary === NOTADB) {
    const unread = describeReadError(file) ?? describeReadError(`${file}-wal`);
    if (unread !== undefined) return stopped(unread);
    return `${file} is damaged, or the disk failed for a moment (${message}); look at the disk, start again, and restore a backup if this comes back`;
  }
  return message;
}

const stopped = (what: string): string => `the disk stopped answering: ${what}`;

/** Reads the file, within a time; undefined when it can be read, or is not there. */
function describeReadError(file: string): string | undefined {
  const end = performance.now() + LOOK_MS;
  const piece = Buffer.allocUnsafe(READ_BYTES);
  let handle: number | undefined;
  try {
    handle = openSync(file, 'r');
    while (performance.now() < end && readSync(handle, piece) > 0);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? undefined : `${code} where ${file} is read`;
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

/** Says why a file that is there may not be written; SQLite would open it for reading, and fail with the first change. */
export function describeWriteError(file: string): string | undefined {
  try {
    accessSync(file, constants.W_OK);
    return undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code === 'EACCES' || code === 'EROFS' ? cannotOpen(file, message) : undefined;
  }
}

/** What is in the way of opening the file for writing, and what to do about it. */
function cannotOpen(file: string, message: string): string {
  const folder = path.dirname(file);
  const say = (why: string, remedy: string): string => `${file} cannot be opened: ${why}; ${remedy}`;
  const elsewhere = 'or choose another POSTRIDER_DATA_DIR';
  try {
    const found = statSync(folder, { throwIfNoEntry: false });
    if (found === undefined) return say(`the folder ${folder} does not exist`, `make it, ${elsewhere}`);
    if (!found.isDirectory()) return say(`${folder} is not a folder`, `move that file away, ${elsewhere}`);
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    for (const one of [file, `${file}-wal`, `${file}-shm`]) {
      const there = statSync(one, { throwIfNoEntry: false });
      if (there === undefined) continue;
      if (!there.isFile()) return say(`${one} is not a file`, 'move it away');
      accessSync(one, constants.R_OK | constants.W_OK);
    }
  } catch (error) {
    const { code, path: where = folder } = error as NodeJS.ErrnoException;
    if (code === 'EROFS') return say('the file system is mounted read-only', `mount it for writing, ${elsewhere}`);
    if (code === 'EACCES' || code === 'EPERM')
      return say(`this user may not write to ${where}`, `chown it to the user of the service, ${elsewhere}`);
    if (code === 'EIO') return stopped(`EIO at ${where}`);
    return say(`${code} at ${where}`, elsewhere.slice(3));
  }
  return say(message, `look at the disk and at the limit of open files, ${elsewhere}`);
}

/**
 * Small files that must survive a power failure: written under a temporary name with mode 0600, synced, renamed, and the directory synced.
 * A reader sees the complete file or none.
 *
 * Files that root creates in another user's directory are given to that user, so that a restore or command run as root leaves no files that
 * the service cannot open. For any other user this does nothing. Links are not followed.
 */
import {
  closeSync,
  fsyncSync,
  lchownSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { randomText } from '../base/ids.ts';

/** Gives these files in the directory to the directory's owner. */
function giveToOwner(directory: string, made: readonly string[]): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(directory);
  if (uid === 0) return;
  for (const one of made) lchownSync(one, uid, gid);
}

/** Gives everything in the directory and below these folders to the directory's owner. */
export function chownToOwner(directory: string, folders: readonly string[]): void {
  const below = [directory, ...folders].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true }).map((one) => path.join(one.parentPath, one.name)),
  );
  giveToOwner(directory, [...folders, ...below]);
}

function writePart(file: string, content: string): string {
  const part = `${file}.${randomText(8)}.part`;
  const handle = openSync(part, 'wx', 0o600);
  try {
    writeFileSync(handle, content);
    giveToOwner(path.dirname(file), [part]);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  return part;
}

/** Makes the names in a directory durable. */
export function syncDirectory(folder: string): void {
  const handle = openSync(folder, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Makes the content of a file durable. */
export function syncFile(file: string): void {
  const handle = openSync(file, 'r+');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export function writeDurableFile(file: string, content: string): void {
  const part = writePart(file, content);
  try {
    renameSync(part, file);
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
  syncDirectory(path.dirname(file));
}

/** Creates the file unless it exists; returns whether it was created. Two processes cannot both create it. */
export function createDurableFile(file: string, content: string): boolean {
  const part = writePart(file, content);
  try {
    linkSync(part, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(part, { force: true });
  }
  syncDirectory(path.dirname(file));
  return true;
}

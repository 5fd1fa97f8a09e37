/**
 * Small files that must survive a power cut: written beside their place with mode 0600, synced, put in place in one step, and
 * the directory synced. A reader sees the whole file or none.
 *
 * What root makes in the directory of another user belongs to that user: a restore, or a command beside a service, run as root,
 * must not leave files that the service may not open. For any other user there is nothing to do. Links are not followed.
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

/** Gives these, which lie in the directory, to the directory's owner. */
function giveToOwner(directory: string, made: readonly string[]): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(directory);
  if (uid === 0) return;
  for (const one of made) lchownSync(one, uid, gid);
}

/** The same for all that lies in the directory and below these folders. */
export function giveAllToOwner(directory: string, folders: readonly string[]): void {
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

/** Makes the content of a file that was written elsewhere durable. */
export function syncFile(file: string): void {
  const handle = openSync(file, 'r+');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Writes or replaces the file. */
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

/** Makes the file, or leaves the one that is there; answers whether it was made. Two processes cannot both make it. */
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

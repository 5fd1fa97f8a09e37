/**
 * Small files that must survive a power cut: written beside their place with mode 0600, synced, put in place in one step, and
 * the directory synced. A reader sees the whole file or none.
 */
import { closeSync, fsyncSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { randomText } from '../base/ids.ts';
import { giveToOwner } from './owner.ts';

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

/** A small, separate file system to be filled. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmdirSync, statfsSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { notAllowed } from './requirements.ts';

export function mountSmallDisk(options = 'size=64m'): { folder: string; unmount: () => void } {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-small-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `${options},mode=0700`, 'tmpfs', folder], { stdio: 'pipe' });
  } catch (error) {
    rmdirSync(folder);
    throw error;
  }
  const unmount = (): void => {
    execFileSync('umount', ['-l', folder]);
    rmdirSync(folder);
  };
  return { folder, unmount };
}

/** Why a test that mounts one is skipped; false if it runs. */
export const noSmallDisk = notAllowed('mount a small file system', () => mountSmallDisk().unmount());

export const freeBytes = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
};

/** Writes a file until this many bytes are left, or none. */
export function fill(folder: string, leaveBytes: number): string {
  const name = path.join(folder, 'ballast');
  const file = openSync(name, 'w');
  const block = Buffer.alloc(256 * 1024, 1);
  try {
    while (freeBytes(folder) > leaveBytes) {
      const room = freeBytes(folder) - leaveBytes;
      writeSync(file, block, 0, Math.min(block.length, Math.max(room, 4096)));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(file);
  }
  return name;
}

/**
 * How much room the disk under a folder has, and whether that is too little to promise anything. Intake stops first,
 * while deliveries still have the room to record their results.
 */
import { statfs } from 'node:fs/promises';

/** Inodes below which intake stops, where the file system counts them. */
const MIN_FREE_INODES = 1_000;

export interface FreeSpace {
  /** What an ordinary process may still write; undefined where the file system cannot be asked. */
  freeBytes: number | undefined;
  /** Why there is too little. */
  shortage: string | undefined;
}

/**
 * Looks at the disk under `folder`. It is short with free bytes below the smaller of `minFreeBytes` and 10 % of the disk, or
 * free inodes below the smaller of 1,000 and 10 %. A file system that cannot be asked counts as short.
 */
export async function freeSpace(folder: string, minFreeBytes: number): Promise<FreeSpace> {
  try {
    const { bsize, blocks, bavail, files, ffree } = await statfs(folder);
    const freeBytes = bavail * bsize;
    const neededBytes = Math.min(minFreeBytes, (blocks * bsize) / 10);
    let shortage: string | undefined;
    if (freeBytes < neededBytes) {
      const [free, needed] = [freeBytes, neededBytes].map((bytes) => Math.round(bytes / 1e6));
      shortage = `the disk has ${free} MB free, and ${needed} MB are needed`;
    } else if (files > 0 && ffree < Math.min(MIN_FREE_INODES, files / 10)) {
      shortage = `the disk has ${ffree} free inodes only`;
    }
    return { freeBytes, shortage };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
    return { freeBytes: undefined, shortage: `the disk cannot be asked for its free space: ${code}` };
  }
}

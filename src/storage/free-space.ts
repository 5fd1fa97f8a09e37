/**
 * How much room the disk under a folder has, and whether that is too little to promise anything. Intake stops first,
 * while deliveries still have the room to record their results.
 */
import { statfs } from 'node:fs/promises';

/** Inodes below which intake stops, where the file system counts them. */
const MIN_FREE_INODES = 1_000;

/**
 * Says why there is too little room, or undefined: free bytes below the smaller of `minFreeBytes` and 10 % of the disk,
 * or free inodes below the smaller of 1,000 and 10 %. A file system that cannot be asked is a reason too.
 */
export async function shortOfSpace(folder: string, minFreeBytes: number): Promise<string | undefined> {
  try {
    const { bsize, blocks, bavail, files, ffree } = await statfs(folder);
    const freeBytes = bavail * bsize;
    const neededBytes = Math.min(minFreeBytes, (blocks * bsize) / 10);
    if (freeBytes < neededBytes) {
      return `the disk has ${Math.round(freeBytes / 1e6)} MB free, and ${Math.round(neededBytes / 1e6)} MB are needed`;
    }
    if (files > 0 && ffree < Math.min(MIN_FREE_INODES, files / 10)) return `the disk has ${ffree} free inodes only`;
    return undefined;
  } catch (error) {
    return `the disk cannot be asked for its free space: ${(error as NodeJS.ErrnoException).code ?? 'unknown'}`;
  }
}

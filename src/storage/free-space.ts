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

export interface Marks {
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
    return { freeBytes, shortage };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
    return { freeBytes: undefined, shortage: `the disk cannot be asked for its free space: ${code}` };
  }
}

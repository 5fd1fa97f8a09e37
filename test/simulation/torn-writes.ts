/** What a power cut leaves of bytes that were written and not synced: disks write entire sectors in any order. */
import type { Random } from './random.ts';

const SECTORS = [512, 4_096];

/** The bytes up to `syncedBytes` stay; each sector after them is kept or was never written, and the length may be lost. */
export function torn(bytes: Buffer, syncedBytes: number, random: Random): Buffer {
  const unsynced = bytes.length - syncedBytes;
  if (unsynced <= 0) return bytes;
  const left = Buffer.from(bytes.subarray(0, random.chance(0.5) ? bytes.length : syncedBytes + random.below(unsynced)));
  const sector = random.pick(SECTORS);
  for (let at = syncedBytes; at < left.length; at = (Math.floor(at / sector) + 1) * sector) {
    if (random.chance(0.5)) left.fill(0, at, Math.min(left.length, (Math.floor(at / sector) + 1) * sector));
  }
  return left;
}

/**
 * Checks whether the write-ahead log that a process left is intact. SQLite reads it up to the first frame with a wrong checksum and treats
 * the rest as never committed. That is right after a power failure, but wrong if the disk changed a bit: all later acknowledged commits
 * would be lost silently. The difference: a commit is synced before the next one is written, so a power failure can only tear the last one.
 * A commit that is followed by another after the faulty frame shows that the frame was once intact. Each start begins a new log with other
 * salts, so frames of older logs do not count.
 *
 * Damage to the last commit alone cannot be detected, because it looks torn. https://sqlite.org/fileformat2.html#walformat
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;

type Sums = readonly [number, number];

/** Extends the log's checksum over these bytes, eight at a time; words are little-endian unless the header says otherwise. */
function summed([first, second]: Sums, bytes: Buffer, isBigEndian: boolean): Sums {
  let [a, b] = [first, second];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    a = (a + view.getUint32(at, !isBigEndian) + b) >>> 0;
    b = (b + view.getUint32(at + 4, !isBigEndian) + a) >>> 0;
  }
  return [a, b];
}

const isSum = (bytes: Buffer, at: number, [a, b]: Sums): boolean =>
  bytes.readUInt32BE(at) === a && bytes.readUInt32BE(at + 4) === b;

/** Throws an error for the operator if the log of this database file is damaged. */
export function assertLogWhole(file: string): void {
  const log = `${file}-wal`;
  let handle: number;
  try {
    handle = openSync(log, 'r');
  } catch {
    // A missing log is not damaged. Other problems are reported when the database is opened.
    return;
  }
  try {
    if (isWhole(handle)) return;
  } finally {
    closeSync(handle);
  }
  throw new Error(
    `${log} is damaged: it contains accepted mail after a part that cannot be read; check the disk and restore a backup, or move ${log} away to start without its content`,
  );
}

function isWhole(handle: number): boolean {
  const header = Buffer.alloc(HEADER_BYTES);
  if (readSync(handle, header, 0, HEADER_BYTES, 0) < HEADER_BYTES || header.every((byte) => byte === 0)) return true;
  const isBigEndian = (header.readUInt32BE(0) & 1) === 1;
  let sums = summed([0, 0], header.subarray(0, 24), isBigEndian);
  // The header is written in one sector, so a power failure cannot leave half of it.
  if (header.readUInt32BE(0) >>> 1 !== MAGIC >>> 1 || !isSum(header, 24, sums)) return false;
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageBytes(header));
  const { size } = fstatSync(handle);
  let isRead = true;
  let isCommitted = false;
  for (let at = HEADER_BYTES; at + frame.length <= size; at += frame.length) {
    readSync(handle, frame, 0, frame.length, at);
    const isOwn = frame.compare(header, 16, 24, 8, 16) === 0;
    if (isRead) {
      sums = summed(summed(sums, frame.subarray(0, 8), isBigEndian), frame.subarray(FRAME_HEADER_BYTES), isBigEndian);
      isRead = isOwn && isSum(frame, 16, sums);
    }
    if (isRead) continue;
    if (isOwn && isCommitted) return false;
    isCommitted ||= isOwn && frame.readUInt32BE(4) !== 0;
  }
  return true;
}

/** In some versions 1 means 65,536. */
function pageBytes(header: Buffer): number {
  const size = header.readUInt32BE(8);
  return size === 1 ? 65_536 : size;
}

/** Numbers of rows that begin with the time they were made at: what time_seq() of the PostgreSQL migrations gives out. */

const EPOCH_MS = 1_767_225_600_000;
const UNIT_MS = 4_096;
const NUMBERS_IN_UNIT = 2 ** 24;

/** No number made at or after this time is smaller, but for the four seconds of its unit. */
export function timeSeqFloor(ms: number): number {
  return Math.floor((ms - EPOCH_MS) / UNIT_MS) * NUMBERS_IN_UNIT;
}

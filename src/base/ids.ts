/**
 * Identifiers: a prefix, eight characters of time, and thirteen random ones, all in [0-9A-Za-z]. They sort by creation time in milliseconds
 * and cannot be guessed: each contains 77 random bits of the CSPRNG and no counter. The first character is 0 until 2081; its other values
 * are reserved for cells (docs/decisions/0029-cells.md).
 */
import { randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export type IdPrefix =
  | 'acc'
  | 'msg'
  | 'sub'
  | 'tpl'
  | 'whk'
  | 'del'
  | 'evt'
  | 'dom'
  | 'key'
  | 'opk'
  | 'smtp'
  | 'apr'
  | 'agr'
  | 'usr'
  | 'ses'
  | 'req'
  | 'aud'
  | 'inb'
  | 'inr'
  | 'ers'
  | 'shr'
  | 'flt'
  | 'ntc';

/** Characters after the prefix. */
const ID_LENGTH = 21;

/**
 * The character code for each random byte. 248 is the largest multiple of 62 below 256: higher bytes would favor some characters and map to
 * none (0).
 */
const CODES = new Uint8Array(256);
for (let byte = 0; byte < 248; byte += 1) CODES[byte] = ALPHABET.charCodeAt(byte % 62);
const pool = Buffer.alloc(8192);
let used = pool.length;
/** Buffer for the characters; appending them one by one would allocate a string for each. */
const scratch = Buffer.alloc(64);

function randomCode(): number {
  for (;;) {
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    const code = CODES[pool[used]!]!;
    pool[used] = 0;
    used += 1;
    if (code !== 0) return code;
  }
}

/** `length` characters (at most 64) of [0-9A-Za-z], each uniformly random (5.95 bits). */
export function randomText(length: number): string {
  if (length > scratch.length) throw new RangeError('random texts have at most 64 characters');
  for (let filled = 0; filled < length; filled += 1) scratch[filled] = randomCode();
  const text = scratch.toString('latin1', 0, length);
  for (let wiped = 0; wiped < length; wiped += 1) scratch[wiped] = 0;
  return text;
}

/** Returns the random part of an id, in half the time of `randomText`. */
function randomThirteen(): string {
  const c = randomCode;
  return String.fromCharCode(c(), c(), c(), c(), c(), c(), c(), c(), c(), c(), c(), c(), c());
}

let lastMs = -1;
let lastTime = '';

function timeText(ms: number): string {
  if (ms === lastMs) return lastTime;
  let rest = ms;
  let text = '';
  for (let i = 0; i < 8; i += 1) {
    text = ALPHABET[rest % 62] + text;
    rest = Math.floor(rest / 62);
  }
  lastMs = ms;
  lastTime = text;
  return text;
}

/** Ids of this prefix created at this time or later are greater in byte order; earlier ones are smaller. */
export function idFloor(prefix: IdPrefix, ms: number): string {
  return `${prefix}_${timeText(ms)}`;
}

/** Returns the Unix ms at which the id was created; undefined for other texts. */
export function timeOfId(id: string): number | undefined {
  const text = /_([0-9A-Za-z]{8})[0-9A-Za-z]*$/.exec(id)?.[1];
  if (text === undefined || id.length - id.lastIndexOf('_') - 1 !== ID_LENGTH) return undefined;
  let ms = 0;
  for (const character of text) ms = ms * 62 + ALPHABET.indexOf(character);
  return ms;
}

/** Returns the id with the time part of another moment; other texts are returned unchanged. */
export function idAt(id: string, ms: number): string {
  const begin = id.length - ID_LENGTH;
  return begin > 0 && id[begin - 1] === '_' ? id.slice(0, begin) + timeText(ms) + id.slice(begin + 8) : id;
}

/** A new id such as `msg_0VnX3kQ9a…`; `nowMs` is Unix milliseconds. */
export function newId(prefix: IdPrefix, nowMs: number = Date.now()): string {
  return `${prefix}_${timeText(nowMs)}${randomThirteen()}`;
}

/** New ids of one moment, in ascending order: the messages of an email have them in the order of its recipients. */
export function newAscendingIds(prefix: IdPrefix, nowMs: number, count: number): string[] {
  if (count === 1) return [newId(prefix, nowMs)];
  return Array.from({ length: count }, () => newId(prefix, nowMs)).sort();
}

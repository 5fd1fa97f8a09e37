/**
 * Identifiers: a prefix, eight characters of time and thirteen random ones, all of [0-9A-Za-z]. They sort by the
 * millisecond they were made in and cannot be guessed: each carries 77 fresh bits of the CSPRNG and no counter.
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
  | 'smtp'
  | 'apr'
  | 'usr'
  | 'ses'
  | 'req'
  | 'aud'
  | 'inb'
  | 'inr';

/** Characters behind the prefix. */
const ID_LENGTH = 21;

/**
 * The code of the character that a random byte stands for. 248 is the largest multiple of 62 below 256: bytes above it would
 * favour some characters, and stand for none (0).
 */
const CODES = new Uint8Array(256);
for (let byte = 0; byte < 248; byte += 1) CODES[byte] = ALPHABET.charCodeAt(byte % 62);
const pool = Buffer.alloc(8192);
let used = pool.length;
/** Characters are put together here: appended one by one each would be a string of its own. */
const scratch = Buffer.alloc(64);

/** The code of one random character of [0-9A-Za-z]; nothing of what it was made from stays in memory. */
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

/** The random part of an id, made without leaving the engine: an id takes half the time that it takes with `randomText`. */
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

/** Ids of this prefix that were made at this time or later are greater, in byte order; those made before are smaller. */
export function idFloor(prefix: IdPrefix, ms: number): string {
  return `${prefix}_${timeText(ms)}`;
}

/** Unix ms at which the id was made; undefined for what is not of this shape. */
export function timeOfId(id: string): number | undefined {
  const text = /_([0-9A-Za-z]{8})[0-9A-Za-z]*$/.exec(id)?.[1];
  if (text === undefined || id.length - id.lastIndexOf('_') - 1 !== ID_LENGTH) return undefined;
  let ms = 0;
  for (const character of text) ms = ms * 62 + ALPHABET.indexOf(character);
  return ms;
}

/** The same id with the time part of another moment; what is not of this shape stays as it is. */
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

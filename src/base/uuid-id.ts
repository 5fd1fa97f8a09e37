/**
 * Ids as UUIDs, for interfaces whose clients accept nothing else. A bijection without a table: the time and the random part of an id
 * (base/ids.ts) are one number, ms * 62^13 + random, that fits the 122 free bits of a version 8 UUID (RFC 9562 §5.8) until the year
 * 2811. The prefix is not part of it: the kind of a resource follows from where its UUID is used.
 */
import { type IdPrefix, timeOfId } from './ids.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const TIME_LENGTH = 8;
const RANDOM_LENGTH = 13;
const BASE = 62n;
const RANDOM_SPAN = BASE ** BigInt(RANDOM_LENGTH);
const TIME_SPAN = BASE ** BigInt(TIME_LENGTH);
const FREE_BITS = 122n;
const UUID = /^([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-([89ab])([0-9a-f]{3})-([0-9a-f]{12})$/i;
const ID = /^[a-z]+_([0-9A-Za-z]{21})$/;

function numberOf(text: string): bigint {
  let number = 0n;
  for (const character of text) number = number * BASE + BigInt(ALPHABET.indexOf(character));
  return number;
}

function textOf(number: bigint, length: number): string {
  let text = '';
  for (let rest = number; text.length < length; rest /= BASE) text = ALPHABET[Number(rest % BASE)] + text;
  return text;
}

/** The UUID of the number, in lower case. */
function format(number: bigint): string {
  const hex = (value: bigint, digits: number): string => value.toString(16).padStart(digits, '0');
  const bits = (from: bigint, count: bigint): bigint => (number >> from) & ((1n << count) - 1n);
  const variant = (0b10n << 62n) | bits(0n, 62n);
  const low = hex(variant, 16);
  return `${hex(bits(90n, 32n), 8)}-${hex(bits(74n, 16n), 4)}-8${hex(bits(62n, 12n), 3)}-${low.slice(0, 4)}-${low.slice(4)}`;
}

/** The UUID that sorts by a time, with any other number for the random part; for resources that have no id of their own. */
export function uuidAt(ms: number, rest: Uint8Array): string {
  return format(BigInt(ms) * RANDOM_SPAN + (BigInt(`0x${Buffer.from(rest).toString('hex')}`) % RANDOM_SPAN));
}

/** Unix ms in a UUID that was made here; undefined for any other text. */
export function timeOfUuid(uuid: string): number | undefined {
  const id = idOfUuid('msg', uuid);
  return id === undefined ? undefined : timeOfId(id);
}

/** The UUID of an id. Throws a RangeError for what is not an id of 21 characters, or is of a year after 2811. */
export function uuidOf(id: string): string {
  const text = ID.exec(id)?.[1];
  const number = text === undefined ? -1n : numberOf(text);
  if (number < 0n || number >> FREE_BITS !== 0n) throw new RangeError(`${id} has no UUID`);
  return format(number);
}

/** The id that has this UUID; undefined for a text that is not the UUID of an id. */
export function idOfUuid(prefix: IdPrefix, uuid: string): string | undefined {
  const parts = UUID.exec(uuid);
  if (parts === null) return undefined;
  const [, high = '', middle = '', low = '', variant = '', node = '', rest = ''] = parts;
  const last = (BigInt(Number.parseInt(variant, 16) & 0b11) << 60n) | BigInt(`0x${node}${rest}`);
  const number = (BigInt(`0x${high}${middle}${low}`) << 62n) | last;
  if (number / RANDOM_SPAN >= TIME_SPAN) return undefined;
  return `${prefix}_${textOf(number / RANDOM_SPAN, TIME_LENGTH)}${textOf(number % RANDOM_SPAN, RANDOM_LENGTH)}`;
}

/** Whether a text has the form of a UUID, of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);
}

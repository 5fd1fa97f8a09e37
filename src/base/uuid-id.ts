/**
 * Converts ids to UUIDs and back, for interfaces whose clients only accept UUIDs. The time and the random part of an id (base/ids.ts) form
 * one number, ms * 62^13 + random, which fits into the 122 free bits of a version 8 UUID (RFC 9562 §5.8) until the year 2811. The prefix is
 * not included: the context of a UUID determines the kind of its resource.
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

/** Returns the UUID of a number, in lower case. */
function format(number: bigint): string {
  const hex = (value: bigint, digits: number): string => value.toString(16).padStart(digits, '0');
  const bits = (from: bigint, count: bigint): bigint => (number >> from) & ((1n << count) - 1n);
  const variant = (0b10n << 62n) | bits(0n, 62n);
  const low = hex(variant, 16);
  return `${hex(bits(90n, 32n), 8)}-${hex(bits(74n, 16n), 4)}-8${hex(bits(62n, 12n), 3)}-${low.slice(0, 4)}-${low.slice(4)}`;
}

/** Returns a UUID that sorts by time, with `rest` as the random part; for resources without an id. */
export function uuidAt(ms: number, rest: Uint8Array): string {
  return format(BigInt(ms) * RANDOM_SPAN + (BigInt(`0x${Buffer.from(rest).toString('hex')}`) % RANDOM_SPAN));
}

/** Returns the Unix ms in a UUID of this form; undefined for any other text. */
export function timeOfUuid(uuid: string): number | undefined {
  const id = idOfUuid('msg', uuid);
  return id === undefined ? undefined : timeOfId(id);
}

/** Returns the UUID of an id. Throws a RangeError if the text is not an id of 21 characters, or is from a year after 2811. */
export function uuidOf(id: string): string {
  const text = ID.exec(id)?.[1];
  const number = text === undefined ? -1n : numberOf(text);
  if (number < 0n || number >> FREE_BITS !== 0n) throw new RangeError(`${id} has no UUID`);
  return format(number);
}

/** Returns the id of a UUID; undefined if the text is not the UUID of an id. */
export function idOfUuid(prefix: IdPrefix, uuid: string): string | undefined {
  const parts = UUID.exec(uuid);
  if (parts === null) return undefined;
  const [, high = '', middle = '', low = '', variant = '', node = '', rest = ''] = parts;
  const last = (BigInt(Number.parseInt(variant, 16) & 0b11) << 60n) | BigInt(`0x${node}${rest}`);
  const number = (BigInt(`0x${high}${middle}${low}`) << 62n) | last;
  if (number / RANDOM_SPAN >= TIME_SPAN) return undefined;
  return `${prefix}_${textOf(number / RANDOM_SPAN, TIME_LENGTH)}${textOf(number % RANDOM_SPAN, RANDOM_LENGTH)}`;
}

/** Returns whether a text has the form of a UUID of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);
}

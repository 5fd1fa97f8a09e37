/**
 * Reads the CBOR (RFC 8949) that authenticators create: integers, byte strings, text, arrays, maps, and simple values. Like CTAP2 §8, it
 * rejects indefinite lengths, tags, duplicate keys, and more than four levels of nesting; it also rejects floating-point numbers. It
 * accepts lengths that are not in the shortest form, because some authenticators write them.
 */
import { isUtf8 } from 'node:buffer';

export type CborValue = number | string | boolean | null | Buffer | CborValue[] | CborMap;
export type CborMap = Map<number | string, CborValue>;

/** The bytes are not valid CBOR, or use a part of it that authenticators do not need. */
export class CborError extends Error {}

const LEVELS_AT_MOST = 4;

class Reader {
  readonly #bytes: Buffer;
  offset: number;

  constructor(bytes: Buffer, offset: number) {
    this.#bytes = bytes;
    this.offset = offset;
  }

  /** RFC 8949 §3: the first three bits of an item are its major type, and the other five are its argument or the size of it. */
  read(level: number): CborValue {
    if (level > LEVELS_AT_MOST) throw new CborError('too many levels of nesting');
    const head = this.#take(1)[0]!;
    const [major, info] = [head >> 5, head & 0x1f];
    if (major === 7) return simpleValue(info);
    const argument = this.#argument(info);
    if (major === 0) return argument;
    if (major === 1) return -1 - argument;
    if (major === 2) return this.#take(argument);
    if (major === 3) return this.#text(argument);
    if (major === 4) return this.#array(argument, level);
    if (major === 5) return this.#map(argument, level);
    throw new CborError('a tag is not allowed');
  }

  #argument(info: number): number {
    if (info < 24) return info;
    if (info === 24) return this.#take(1)[0]!;
    if (info === 25) return this.#take(2).readUInt16BE();
    if (info === 26) return this.#take(4).readUInt32BE();
    if (info !== 27) throw new CborError('an indefinite length is not allowed');
    const wide = this.#take(8).readBigUInt64BE();
    // A negative integer is -1 minus its argument, and must be a safe integer too.
    if (wide >= BigInt(Number.MAX_SAFE_INTEGER)) throw new CborError('an integer is out of range');
    return Number(wide);
  }

  #take(length: number): Buffer {
    if (length > this.#bytes.length - this.offset) throw new CborError('the data is truncated');
    this.offset += length;
    return this.#bytes.subarray(this.offset - length, this.offset);
  }

  #text(length: number): string {
    const bytes = this.#take(length);
    if (!isUtf8(bytes)) throw new CborError('text is not valid UTF-8');
    return bytes.toString('utf8');
  }

  #array(length: number, level: number): CborValue[] {
    const values: CborValue[] = [];
    while (values.length < length) values.push(this.read(level + 1));
    return values;
  }

  #map(length: number, level: number): CborMap {
    const map: CborMap = new Map();
    while (map.size < length) {
      const key = this.read(level + 1);
      if (typeof key !== 'number' && typeof key !== 'string') throw new CborError('a key must be an integer or text');
      if (map.has(key)) throw new CborError('a key is repeated');
      map.set(key, this.read(level + 1));
    }
    return map;
  }
}

function simpleValue(info: number): boolean | null {
  if (info === 20) return false;
  if (info === 21) return true;
  if (info === 22) return null;
  throw new CborError('floating-point numbers and other simple values are not allowed');
}

/** Reads the item at `start`. Returns it and the offset after it. Throws CborError. Byte strings are views of `bytes`. */
export function readCbor(bytes: Buffer, start = 0): { value: CborValue; end: number } {
  const reader = new Reader(bytes, start);
  const value = reader.read(1);
  return { value, end: reader.offset };
}

/** Reads the map at `start`, like `readCbor`. */
export function readCborMap(bytes: Buffer, start = 0): { map: CborMap; end: number } {
  const { value, end } = readCbor(bytes, start);
  if (!(value instanceof Map)) throw new CborError('a map is missing');
  return { map: value, end };
}

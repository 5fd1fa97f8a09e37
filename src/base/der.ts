/**
 * Encodes the few ASN.1 structures that certificates and certificate requests need in DER (X.690); Node can read X.509 but not write it.
 */
import { isIPv4 } from 'node:net';

/** Returns one DER value: tag, length, content. */
export function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  if (content.length < 128) return Buffer.concat([Buffer.of(tag, content.length), content]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  const digits = length.subarray(length.findIndex((byte) => byte !== 0));
  return Buffer.concat([Buffer.of(tag, 0x80 | digits.length), digits, content]);
}

export const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts);
export const set = (...parts: Buffer[]): Buffer => der(0x31, ...parts);
const octets = (content: Buffer): Buffer => der(0x04, content);
export const bits = (content: Buffer): Buffer => der(0x03, Buffer.of(0), content);
export const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text));
const yes = der(0x01, Buffer.of(0xff));

/** A positive INTEGER. */
export function integer(bytes: Buffer): Buffer {
  return der(0x02, (bytes[0]! & 0x80) === 0 ? bytes : Buffer.concat([Buffer.of(0), bytes]));
}

export function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const bytes = [40 * first + second];
  for (const number of rest) {
    const digits = [number & 0x7f];
    for (let left = number >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
    bytes.push(...digits);
  }
  return der(0x06, Buffer.from(bytes));
}

export function extension(id: string, value: Buffer, { critical }: { critical: boolean }): Buffer {
  return sequence(objectId(id), ...(critical ? [yes] : []), octets(value));
}

function generalName(name: string): Buffer {
  if (isIPv4(name)) return der(0x87, Buffer.from(name.split('.').map(Number)));
  if (name === '::1') return der(0x87, Buffer.concat([Buffer.alloc(15), Buffer.of(1)]));
  return der(0x82, Buffer.from(name));
}

/** The names that a certificate is for (RFC 5280 §4.2.1.6). */
export function subjectAltName(names: string[]): Buffer {
  return extension('2.5.29.17', sequence(...names.map(generalName)), { critical: false });
}

/** ecdsa-with-SHA256 (RFC 5758 §3.2). */
export const ECDSA_SHA256 = sequence(objectId('1.2.840.10045.4.3.2'));

/**
 * A self-signed certificate for a first start, when there is none yet: EC P-256, the names as subjectAltName, ten years. Node can read
 * X.509 and not write it, so that the few structures of RFC 5280 that it takes are encoded here in DER (X.690). Clients cannot
 * verify such a certificate; it makes STARTTLS possible and is meant to be replaced.
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

const YEAR_MS = 365 * 86_400_000;
const LIFETIME_MS = 10 * YEAR_MS;

/** One DER value: tag, length, content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  if (content.length < 128) return Buffer.concat([Buffer.of(tag, content.length), content]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  const digits = length.subarray(length.findIndex((byte) => byte !== 0));
  return Buffer.concat([Buffer.of(tag, 0x80 | digits.length), digits, content]);
}

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts);
const set = (...parts: Buffer[]): Buffer => der(0x31, ...parts);
const octets = (content: Buffer): Buffer => der(0x04, content);
const bits = (content: Buffer): Buffer => der(0x03, Buffer.of(0), content);
const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text));
const yes = der(0x01, Buffer.of(0xff));

/** A positive INTEGER. */
function integer(bytes: Buffer): Buffer {
  return der(0x02, (bytes[0]! & 0x80) === 0 ? bytes : Buffer.concat([Buffer.of(0), bytes]));
}

function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const bytes = [40 * first + second];
  for (const number of rest) {
    const digits = [number & 0x7f];
    for (let left = number >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
    bytes.push(...digits);
  }
  return der(0x06, Buffer.from(bytes));
}

/** UTCTime up to 2049, GeneralizedTime from then on (RFC 5280 §4.1.2.5). */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  return Number(text.slice(0, 4)) < 2050 ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text));
}

function extension(id: string, value: Buffer, { critical }: { critical: boolean }): Buffer {
  return sequence(objectId(id), ...(critical ? [yes] : []), octets(value));
}

function generalName(name: string): Buffer {
  if (isIPv4(name)) return der(0x87, Buffer.from(name.split('.').map(Number)));
  if (name === '::1') return der(0x87, Buffer.concat([Buffer.alloc(15), Buffer.of(1)]));
  return der(0x82, Buffer.from(name));
}

const ECDSA_SHA256 = sequence(objectId('1.2.840.10045.4.3.2'));
const COMMON_NAME = '2.5.4.3';
const SUBJECT_ALT_NAME = '2.5.29.17';
const BASIC_CONSTRAINTS = '2.5.29.19';
const KEY_USAGE = '2.5.29.15';
const EXTENDED_KEY_USAGE = '2.5.29.37';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

function toBeSigned(names: string[], publicKey: KeyObject, nowMs: number): Buffer {
  // At most 64 characters (RFC 5280, ub-common-name); what counts are the names of the extension.
  const name = sequence(set(sequence(objectId(COMMON_NAME), utf8(names[0]!.slice(0, 64)))));
  const serial = randomBytes(16);
  serial[0] = (serial[0]! & 0x7f) | 0x40;
  const extensions = sequence(
    extension(BASIC_CONSTRAINTS, sequence(), { critical: true }),
    // digitalSignature alone.
    extension(KEY_USAGE, der(0x03, Buffer.of(7, 0x80)), { critical: true }),
    extension(EXTENDED_KEY_USAGE, sequence(objectId(SERVER_AUTH)), { critical: false }),
    extension(SUBJECT_ALT_NAME, sequence(...names.map(generalName)), { critical: false }),
  );
  return sequence(
    der(0xa0, integer(Buffer.of(2))),
    integer(serial),
    ECDSA_SHA256,
    name,
    // An hour back, for clients whose clock is behind.
    sequence(time(nowMs - 3_600_000), time(nowMs + LIFETIME_MS)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  );
}

export interface Certificate {
  /** PEM, PKCS #8. */
  key: string;
  /** PEM. */
  cert: string;
}

/** A key and its certificate for these host names and addresses, of which the first is the subject. */
export function selfSigned(names: string[], nowMs: number): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const body = toBeSigned(names, publicKey, nowMs);
  const certificate = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, privateKey)));
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
  };
}

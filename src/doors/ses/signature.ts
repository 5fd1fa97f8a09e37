/**
 * AWS Signature Version 4 for requests with an Authorization header: parses the header, builds the canonical request and the string to sign,
 * and compares signatures in constant time. Pure functions. Presigned URLs, chunked payloads, and asymmetric signatures are not included.
 *
 * The path is canonicalized as for every service but S3: dot segments and empty segments are removed, and what was sent is percent-encoded
 * once more. The query is decoded, encoded by RFC 3986 §2.3, and sorted. Header values are trimmed, runs of white space become one space,
 * and repeated headers are joined with commas.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';

const ALGORITHM = 'AWS4-HMAC-SHA256';
const TERMINATOR = 'aws4_request';
export const SERVICE = 'ses';

export interface Authorization {
  accessKeyId: string;
  /** YYYYMMDD. */
  date: string;
  region: string;
  service: string;
  /** In lower case, sorted. */
  signedHeaders: readonly string[];
  /** 64 hexadecimal digits in lower case. */
  signature: string;
}

export type Parsed = { ok: true; value: Authorization } | { ok: false; reason: string };

const CREDENTIAL = /^([A-Za-z0-9]{1,128})\/(\d{8})\/([a-z0-9-]{1,64})\/([a-z0-9-]{1,64})\/aws4_request$/;
const SIGNED_HEADERS = /^[a-z0-9!#$%&'*+.^_`|~-]+(?:;[a-z0-9!#$%&'*+.^_`|~-]+)*$/;
const SIGNATURE = /^[0-9a-f]{64}$/;
const NAMES = ['Credential', 'SignedHeaders', 'Signature'] as const;

/** Parses an Authorization header. The reason completes a sentence about the header. */
export function parseAuthorization(header: string): Parsed {
  const [, algorithm, rest = ''] = /^(\S+)\s*(.*)$/s.exec(header.trim()) ?? [];
  if (algorithm !== ALGORITHM)
    return { ok: false, reason: `must use the algorithm ${ALGORITHM}, and not ${printable(algorithm ?? '')}` };
  const parts = new Map<string, string>();
  for (const part of rest.split(',')) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals === -1 || parts.has(name)) return { ok: false, reason: `has an invalid part: ${printable(part)}` };
    parts.set(name, part.slice(equals + 1).trim());
  }
  const missing = NAMES.filter((name) => !parts.has(name));
  if (missing.length > 0) return { ok: false, reason: `requires '${missing.join("' and '")}'` };
  const credential = CREDENTIAL.exec(parts.get('Credential')!);
  if (credential === null)
    return { ok: false, reason: 'must have a Credential of the form KEY_ID/YYYYMMDD/REGION/ses/aws4_request' };
  const names = parts.get('SignedHeaders')!;
  if (!SIGNED_HEADERS.test(names))
    return { ok: false, reason: 'must have SignedHeaders in lower case, separated by semicolons' };
  const signature = parts.get('Signature')!;
  if (!SIGNATURE.test(signature)) return { ok: false, reason: 'must have a Signature of 64 hexadecimal digits' };
  const [, accessKeyId = '', date = '', region = '', service = ''] = credential;
  return {
    ok: true,
    value: { accessKeyId, date, region, service, signedHeaders: names.split(';').sort(), signature },
  };
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 60);
}

const UNRESERVED = /[A-Za-z0-9._~-]/;
const HEX = /^[0-9A-Fa-f]{2}$/;

/** Percent-encodes every byte that is not unreserved (RFC 3986 §2.3). */
function encodeBytes(bytes: Iterable<number>, keep = ''): string {
  let text = '';
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    const isKept = UNRESERVED.test(character) || (keep !== '' && keep.includes(character));
    text += isKept ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return text;
}

/** Decodes percent-encoded bytes; a percent sign without two hexadecimal digits is itself. */
function decodeBytes(text: string): number[] {
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const digits = text[at] === '%' ? text.slice(at + 1, at + 3) : '';
    if (HEX.test(digits)) {
      bytes.push(Number.parseInt(digits, 16));
      at += 2;
    } else bytes.push(text.charCodeAt(at) & 0xff);
  }
  return bytes;
}

/** Returns the canonical form of a path as it was sent. */
export function canonicalPath(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') kept.pop();
    else if (segment !== '' && segment !== '.') kept.push(segment);
  }
  const slash = kept.length > 0 && path.endsWith('/') ? '/' : '';
  return encodeBytes(Buffer.from(`/${kept.join('/')}${slash}`, 'latin1'), '/');
}

/** Returns the canonical form of a query as it was sent, without the question mark. */
export function canonicalQuery(search: string): string {
  const pairs = search
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair): [string, string] => {
      const equals = pair.indexOf('=');
      const [name, value] = equals === -1 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)];
      return [encodeBytes(decodeBytes(name)), encodeBytes(decodeBytes(value))];
    });
  const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  pairs.sort(([a, x], [b, y]) => order(a, b) || order(x, y));
  return pairs.map(([name, value]) => `${name}=${value}`).join('&');
}

/** Returns the canonical form of the values of one header. */
export function canonicalHeader(values: readonly string[]): string {
  return values.map((value) => value.trim().replace(/\s+/g, ' ')).join(',');
}

export interface SignedRequest {
  method: string;
  /** As it was sent, without the query. */
  path: string;
  /** As it was sent, without the question mark. */
  search: string;
  /** The values of a header by its name in lower case; undefined if the request does not have it. */
  header(name: string): readonly string[] | undefined;
  /** SHA-256 of the body, in hexadecimal. */
  payloadHash: string;
}

/** Returns the canonical request; header values are Latin-1, as node:http returns them. */
export function canonicalRequest(request: SignedRequest, signedHeaders: readonly string[]): string {
  const headers = signedHeaders.map((name) => `${name}:${canonicalHeader(request.header(name) ?? [])}\n`);
  return [
    request.method,
    canonicalPath(request.path),
    canonicalQuery(request.search),
    headers.join(''),
    signedHeaders.join(';'),
    request.payloadHash,
  ].join('\n');
}

type Scope = Pick<Authorization, 'date' | 'region' | 'service'>;

export function stringToSign(canonical: string, amzDate: string, { date, region, service }: Scope): string {
  const digest = hash('sha256', Buffer.from(canonical, 'latin1'), 'hex');
  return [ALGORITHM, amzDate, [date, region, service, TERMINATOR].join('/'), digest].join('\n');
}

/** Returns the key that signs the requests of one day, region, and service. */
export function signingKey(secret: string, { date, region, service }: Scope): Buffer {
  let key = Buffer.from(`AWS4${secret}`);
  for (const part of [date, region, service, TERMINATOR]) key = createHmac('sha256', key).update(part).digest();
  return key;
}

/** Returns whether the signature is that of the string, in constant time. */
export function isSignature(signature: string, key: Uint8Array, signed: string): boolean {
  const expected = createHmac('sha256', key).update(signed).digest();
  return timingSafeEqual(expected, Buffer.from(signature, 'hex'));
}

/** Parses X-Amz-Date (YYYYMMDDTHHMMSSZ); returns Unix ms, or undefined if it is not such a time. */
export function timeOfAmzDate(text: string): number | undefined {
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z$/.exec(text) ?? [];
  if (year === undefined) return undefined;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** Writes Unix ms as X-Amz-Date does. */
export function amzDateOf(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:]|\.\d{3}/g, '');
}

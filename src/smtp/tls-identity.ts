/**
 * Key, certificate and TLS parameters of the submission port: TLS 1.2 and 1.3, forward secrecy only, session tickets so that a
 * client that connects for each mail does not pay for a whole handshake. Files are looked at every two seconds and taken when
 * both are good together; until then, and for sessions that are open, the old ones stay. Without files a self-signed
 * certificate is made and kept in the data directory.
 *
 * A self-signed certificate for a first start, when there is none yet: EC P-256, the names as subjectAltName, ten years. Node
 * can read X.509 and not write it, so that the few structures of RFC 5280 that it takes are encoded here in DER (X.690).
 * Clients cannot verify such a certificate; it makes STARTTLS possible and is meant to be replaced.
 */
import { constants, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import path from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { writeDurableFile } from '../storage/durable-file.ts';

const LOOK_MS = 2_000;
/** A certificate of ours is replaced when it has less than this left. */
const RENEW_BEFORE_MS = 30 * 86_400_000;
const FILE = 'smtp-tls.pem';
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

export interface TlsIdentity extends Running {
  /** For the next handshake. */
  context(): SecureContext;
  /** Looks at the files now; answers whether others were taken. */
  reload(): boolean;
}

export interface TlsFiles {
  certFile: string;
  keyFile: string;
}

/** Throws a sentence for the operator when the files cannot be used. */
export function openTlsIdentity(options: {
  files: TlsFiles | undefined;
  /** Where a certificate of our own is kept. */
  folder: string;
  hostname: string;
  clock: Clock;
  log: Log;
}): TlsIdentity {
  const { files, log } = options;
  // One for all contexts, so that tickets outlive a change of the certificate.
  const ticketKeys = randomBytes(48);
  if (files === undefined) {
    const context = contextOf(ownCertificate(options), ticketKeys);
    return { context: () => context, reload: () => false, stop: async () => undefined };
  }
  let seen = stateOf(files);
  let current = contextOf(readFiles(files), ticketKeys);
  let complaint: string | undefined;

  const reload = (): boolean => {
    let state: string;
    try {
      state = stateOf(files);
      if (state === seen) return false;
      current = contextOf(readFiles(files), ticketKeys);
    } catch (error) {
      const { message } = error as Error;
      // The other file may be a moment behind; looked at again until both fit, and logged once.
      if (message !== complaint) log.warn({ err: error }, 'changed TLS files are not taken; the old ones stay');
      complaint = message;
      return false;
    }
    seen = state;
    complaint = undefined;
    log.info({ certFile: files.certFile }, 'the changed certificate is in use');
    return true;
  };
  const timer = setInterval(reload, LOOK_MS).unref();
  return { context: () => current, reload, stop: async () => clearInterval(timer) };
}

function contextOf({ key, cert }: Certificate, ticketKeys: Buffer): SecureContext {
  return createSecureContext({
    key,
    cert,
    ticketKeys,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    ecdhCurve: 'auto',
    honorCipherOrder: true,
    sessionIdContext: 'postrider-smtp',
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
  });
}

function readFiles({ certFile, keyFile }: TlsFiles): Certificate {
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
}

/** Changes with the files, whether they are written in place, replaced, or links that lead elsewhere. */
function stateOf({ certFile, keyFile }: TlsFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const found = statSync(file, { throwIfNoEntry: false, bigint: true });
      return found ? `${found.dev}.${found.ino}.${found.mtimeNs}.${found.size}` : 'missing';
    })
    .join(' ');
}

/** The kept certificate while it is good for this name, else a new one; key and certificate share a file of mode 0600. */
function ownCertificate(options: { folder: string; hostname: string; clock: Clock; log: Log }): Certificate {
  const { hostname, clock, log } = options;
  const file = path.join(options.folder, FILE);
  const kept = existsSync(file) ? splitPem(readFileSync(file, 'utf8')) : undefined;
  if (kept && isGood(kept, hostname, clock.now())) return kept;
  const made = selfSigned([...new Set([hostname, 'localhost', '127.0.0.1', '::1'])], clock.now());
  writeDurableFile(file, made.key + made.cert);
  log.info({ file, hostname }, 'a self-signed certificate was made for SMTP; clients cannot verify it');
  return made;
}

function splitPem(text: string): Certificate | undefined {
  const begin = text.indexOf('-----BEGIN CERTIFICATE-----');
  return begin <= 0 ? undefined : { key: text.slice(0, begin), cert: text.slice(begin) };
}

function isGood({ cert, key }: Certificate, hostname: string, nowMs: number): boolean {
  try {
    createSecureContext({ cert, key });
    const certificate = new X509Certificate(cert);
    const left = Date.parse(certificate.validTo) - nowMs;
    return left > RENEW_BEFORE_MS && certificate.checkHost(hostname) !== undefined;
  } catch {
    return false;
  }
}

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

interface Certificate {
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

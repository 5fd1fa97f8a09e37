/**
 * Key, certificate, and TLS parameters of a port: TLS 1.2 and 1.3, forward secrecy only, session tickets so that a client that connects for
 * each mail avoids full handshakes. Files are checked every two seconds and loaded when both match; until then, and for open sessions, the
 * old ones stay in use. Without files a self-signed certificate is created and kept in the data directory, until an authority's certificate
 * replaces it.
 *
 * Also creates that self-signed certificate: EC P-256, the names as subjectAltName, ten years, encoded here (RFC 5280). Clients cannot
 * verify it; it makes TLS possible and is meant to be replaced.
 */
import { constants, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../base/clock.ts';
import {
  bits,
  der,
  ECDSA_SHA256,
  extension,
  integer,
  objectId,
  sequence,
  set,
  subjectAltName,
  utf8,
} from '../base/der.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { writeDurableFile } from '../storage/durable-file.ts';

const CHECK_MS = 2_000;
/** A self-signed certificate is replaced when it has less than this left. */
const RENEW_BEFORE_MS = 30 * 86_400_000;
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

/** The certificate that a port currently presents. */
export interface ShownCertificate {
  source: 'files' | 'authority' | 'self-signed';
  /** Unix ms. */
  expiresAtMs: number;
}

export interface TlsIdentity extends Running {
  /** Returns the context for the next handshake, with a client that requests this host. */
  context(servername?: string): SecureContext;
  /** Checks the files now; returns whether new ones were loaded. */
  reload(): boolean;
  /** Uses this certificate from the next handshake on. Throws if key and certificate do not match. */
  use(certificate: Certificate): void;
  /** Uses this certificate for clients that request this host. Throws likewise. */
  useFor(servername: string, certificate: Certificate): void;
  shown(): ShownCertificate;
}

export interface TlsFiles {
  certFile: string;
  keyFile: string;
}

interface IdentityOptions {
  files: TlsFiles | undefined;
  /** Where a self-signed certificate is kept. */
  folder: string;
  /** It is kept as `smtp-tls.pem` or `https-tls.pem`. */
  port?: 'smtp' | 'https';
  hostname: string;
  clock: Clock;
  log: Log;
}

/** Throws an error for the operator if the files cannot be used. */
export function openTlsIdentity(options: IdentityOptions): TlsIdentity {
  const { files, log } = options;
  // Shared by all contexts, so that tickets outlive a change of the certificate.
  const ticketKeys = randomBytes(48);
  let current: { context: SecureContext; shown: ShownCertificate };
  const show = (certificate: Certificate, source: ShownCertificate['source']): void => {
    const context = contextOf(certificate, ticketKeys);
    current = { context, shown: { source, expiresAtMs: Date.parse(new X509Certificate(certificate.cert).validTo) } };
  };
  /** Certificates of additional host names, by name. */
  const further = new Map<string, SecureContext>();
  const rest = {
    context: (servername = '') => further.get(servername.toLowerCase()) ?? current.context,
    useFor: (servername: string, certificate: Certificate) => {
      further.set(servername, contextOf(certificate, ticketKeys));
    },
    shown: () => current.shown,
    use: (certificate: Certificate) => show(certificate, 'authority'),
  };
  if (files === undefined) {
    show(ownCertificate(options), 'self-signed');
    return { ...rest, reload: () => false, stop: async () => undefined };
  }
  let seen = stateOf(files);
  show(readFiles(files), 'files');
  let complaint: string | undefined;

  const reload = (): boolean => {
    let state: string;
    try {
      state = stateOf(files);
      if (state === seen) return false;
      show(readFiles(files), 'files');
    } catch (error) {
      const { message } = error as Error;
      // The other file may be written a moment later; checked again until both match, and logged once.
      if (message !== complaint) log.warn({ err: error }, 'invalid TLS files ignored; keeping the current certificate');
      complaint = message;
      return false;
    }
    seen = state;
    complaint = undefined;
    log.info({ certFile: files.certFile }, 'certificate reloaded');
    return true;
  };
  const timer = setInterval(reload, CHECK_MS).unref();
  return { ...rest, reload, stop: async () => clearInterval(timer) };
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

/** Changes with the files, whether they are rewritten, replaced, or links that point elsewhere. */
function stateOf({ certFile, keyFile }: TlsFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const found = statSync(file, { throwIfNoEntry: false, bigint: true });
      return found ? `${found.dev}.${found.ino}.${found.mtimeNs}.${found.size}` : 'missing';
    })
    .join(' ');
}

/** Returns the stored certificate while it is valid for this name, else a new one; key and certificate share a file of mode 0600. */
function ownCertificate({ folder, port = 'smtp', hostname, clock, log }: IdentityOptions): Certificate {
  const file = path.join(folder, `${port}-tls.pem`);
  const kept = existsSync(file) ? splitPem(readFileSync(file, 'utf8')) : undefined;
  if (kept && isGood(kept, hostname, clock.now())) return kept;
  const made = selfSigned([...new Set([hostname, 'localhost', '127.0.0.1', '::1'])], clock.now());
  writeDurableFile(file, made.key + made.cert);
  log.info({ file, hostname, port }, 'self-signed certificate created; clients cannot verify it');
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

/** UTCTime up to 2049, GeneralizedTime from then on (RFC 5280 §4.1.2.5). */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  return Number(text.slice(0, 4)) < 2050 ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text));
}

const COMMON_NAME = '2.5.4.3';
const BASIC_CONSTRAINTS = '2.5.29.19';
const KEY_USAGE = '2.5.29.15';
const EXTENDED_KEY_USAGE = '2.5.29.37';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

function toBeSigned(names: string[], publicKey: KeyObject, nowMs: number): Buffer {
  // At most 64 characters (RFC 5280, ub-common-name); only the names in the extension matter.
  const name = sequence(set(sequence(objectId(COMMON_NAME), utf8(names[0]!.slice(0, 64)))));
  const serial = randomBytes(16);
  serial[0] = (serial[0]! & 0x7f) | 0x40;
  const extensions = sequence(
    extension(BASIC_CONSTRAINTS, sequence(), { critical: true }),
    // Only digitalSignature.
    extension(KEY_USAGE, der(0x03, Buffer.of(7, 0x80)), { critical: true }),
    extension(EXTENDED_KEY_USAGE, sequence(objectId(SERVER_AUTH)), { critical: false }),
    subjectAltName(names),
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
  /** PEM, followed by the certificates of the issuers. */
  cert: string;
}

/** Returns a key and its certificate for these host names and addresses, the first of which is the subject. */
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

/**
 * Key, certificate and TLS parameters of the submission port: TLS 1.2 and 1.3, forward secrecy only, session tickets so that a
 * client that connects for each mail does not pay for a whole handshake. Files are looked at every two seconds and taken when both
 * are good together; until then, and for sessions that are open, the old ones stay. Without files a self-signed certificate is
 * made and kept in the data directory.
 */
import { constants, randomBytes, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { writeDurableFile } from '../storage/durable-file.ts';
import { type Certificate, selfSigned } from './self-signed.ts';

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

/**
 * TLS towards other mail servers. Never below TLSv1.2. Opportunistic connections take any certificate and keys that a
 * verified one would find too short, because the alternative is no encryption at all (RFC 7435); verified ones check
 * the chain and the name. Contexts are made once: reading the certificate authorities costs milliseconds.
 */
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import tls, { type ConnectionOptions, type SecureContext, type TLSSocket } from 'node:tls';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { OpenSmtpOptions, PeerCertificate } from './smtp-types.ts';

let opportunistic: SecureContext | undefined;
let verified: SecureContext | undefined;
let observed: SecureContext | undefined;

function opportunisticContext(): SecureContext {
  opportunistic ??= tls.createSecureContext({
    minVersion: 'TLSv1.2',
    ciphers: `${tls.DEFAULT_CIPHERS}:@SECLEVEL=1`,
    // Nothing is verified: an empty list saves the memory of the default one.
    ca: [],
  });
  return opportunistic;
}

function verifiedContext(): SecureContext {
  verified ??= tls.createSecureContext({ minVersion: 'TLSv1.2' });
  return verified;
}

/** Takes what the opportunistic one takes, and finds out what the verified one would have said. */
function observedContext(): SecureContext {
  observed ??= tls.createSecureContext({ minVersion: 'TLSv1.2', ciphers: `${tls.DEFAULT_CIPHERS}:@SECLEVEL=1` });
  return observed;
}

/**
 * Options for `tls.connect` towards `host`: checked against its certificate with `verify`; merely encrypted without, but with
 * `observe` the chain is looked into, and nothing follows from it.
 */
export function clientTlsOptions(host: string, options: { verify: boolean; observe?: boolean }): ConnectionOptions {
  const observe = options.observe === true && !options.verify;
  return {
    secureContext: options.verify ? verifiedContext() : observe ? observedContext() : opportunisticContext(),
    rejectUnauthorized: options.verify,
    ...(observe ? { checkServerIdentity: () => undefined } : {}),
    minVersion: 'TLSv1.2',
    // For an IP literal there is no SNI (RFC 6066 §3); Node checks the certificate against `host` then.
    ...(isIP(host) === 0 ? { servername: host } : { host }),
  };
}

/**
 * Whether mail may go in the clear where TLS is offered and fails: nobody asked for it, and there is neither a password nor a
 * certificate to protect.
 */
export function allowsClear(options: Pick<OpenSmtpOptions, 'tls' | 'verifyCertificate' | 'auth'>): boolean {
  return options.tls === 'opportunistic' && !options.verifyCertificate && options.auth === undefined;
}

/** A chain that is longer is a loop or a joke. */
const MAX_ISSUERS = 10;

/** The certificate of the peer of a finished handshake; undefined when it showed none. */
export function peerCertificateOf(socket: TLSSocket): PeerCertificate | undefined {
  const leaf = socket.getPeerX509Certificate();
  if (!leaf) return undefined;
  const issuers: X509Certificate[] = [];
  for (let at = socket.getPeerCertificate(true); issuers.length < MAX_ISSUERS; at = at.issuerCertificate) {
    const issuer = at.issuerCertificate;
    // The last one names itself.
    if (!issuer || issuer.raw.equals(at.raw)) break;
    issuers.push(new X509Certificate(issuer.raw));
  }
  const fault = socket.authorizationError as unknown as string | null;
  return { leaf, issuers, ...(fault ? { chainFault: String(fault) } : {}) };
}

const MAX_NAME_CHARACTERS = 255;

/** The first names that a certificate is made out to. */
export function namesOf(certificate: X509Certificate): string[] {
  const names: string[] = certificate.subjectAltName?.match(/(?<=(?:^|, )(?:DNS|IP Address):)[^,]+/g) ?? [];
  if (names.length === 0) names.push(/^CN=(.*)$/m.exec(certificate.subject)?.[1] ?? '');
  return names
    .map((name) => name.replace(/[^\x21-\x7e]/g, '?').slice(0, MAX_NAME_CHARACTERS))
    .filter((name) => name !== '');
}

/** That of the host where the certificate has it, otherwise the first of its names. */
export function peerNameOf(socket: TLSSocket, host: string): string | undefined {
  const leaf = socket.getPeerX509Certificate();
  return leaf && ((isIP(host) === 0 ? leaf.checkHost(host) : leaf.checkIP(host)) ?? namesOf(leaf)[0]);
}

const STARTTLS_REJECTED = 'the server offers STARTTLS but rejects it: ';

/** Why a session continues in the clear after a 4xx or 5xx to STARTTLS. */
export function startTlsRefused(reply: SmtpReply): string {
  return `${STARTTLS_REJECTED}${reply.code} ${reply.text}`;
}

/** Whether a session is in the clear because the server rejected STARTTLS, and not because the handshake failed. */
export function isStartTlsRefused(tlsFallback: string): boolean {
  return tlsFallback.startsWith(STARTTLS_REJECTED);
}

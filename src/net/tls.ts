/**
 * TLS to other mail servers. TLSv1.2 is the minimum. Opportunistic connections accept any certificate, and keys that a verified one would
 * refuse as too short, because the alternative is no encryption at all (RFC 7435); verified ones check the chain and the name. Contexts are
 * created once, because reading the certificate authorities takes milliseconds.
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
    // Nothing is verified, so an empty list saves the memory of the default one.
    ca: [],
  });
  return opportunistic;
}

function verifiedContext(): SecureContext {
  verified ??= tls.createSecureContext({ minVersion: 'TLSv1.2' });
  return verified;
}

/** Accepts what the opportunistic context accepts, and finds out whether the verified one would. */
function observedContext(): SecureContext {
  observed ??= tls.createSecureContext({ minVersion: 'TLSv1.2', ciphers: `${tls.DEFAULT_CIPHERS}:@SECLEVEL=1` });
  return observed;
}

/**
 * Returns options for `tls.connect` to `host`: with `verify` its certificate is checked; without, the connection is only encrypted.
 * `observe` also checks the chain, without consequences.
 */
export function clientTlsOptions(host: string, options: { verify: boolean; observe?: boolean }): ConnectionOptions {
  const observe = options.observe === true && !options.verify;
  return {
    secureContext: options.verify ? verifiedContext() : observe ? observedContext() : opportunisticContext(),
    rejectUnauthorized: options.verify,
    ...(observe ? { checkServerIdentity: () => undefined } : {}),
    minVersion: 'TLSv1.2',
    // An IP literal has no SNI (RFC 6066 §3); Node then checks the certificate against `host`.
    ...(isIP(host) === 0 ? { servername: host } : { host }),
  };
}

/**
 * Returns whether mail may be sent unencrypted if TLS is offered and fails: TLS is not required, and there is no password or client
 * certificate to protect.
 */
export function allowsClear(options: Pick<OpenSmtpOptions, 'tls' | 'verifyCertificate' | 'auth'>): boolean {
  return options.tls === 'opportunistic' && !options.verifyCertificate && options.auth === undefined;
}

/** A longer chain is a loop or invalid. */
const MAX_ISSUERS = 10;

/** Returns the peer's certificate after a handshake; undefined if it presented none. */
export function peerCertificateOf(socket: TLSSocket): PeerCertificate | undefined {
  const leaf = socket.getPeerX509Certificate();
  if (!leaf) return undefined;
  const issuers: X509Certificate[] = [];
  for (let at = socket.getPeerCertificate(true); issuers.length < MAX_ISSUERS; at = at.issuerCertificate) {
    const issuer = at.issuerCertificate;
    // A root names itself as issuer.
    if (!issuer || issuer.raw.equals(at.raw)) break;
    issuers.push(new X509Certificate(issuer.raw));
  }
  const fault = socket.authorizationError as unknown as string | null;
  return { leaf, issuers, ...(fault ? { chainFault: String(fault) } : {}) };
}

/** Returns the group of the key exchange, such as `X25519MLKEM768` (post-quantum) or `X25519`; undefined if it has no name. */
export function keyExchangeOf(socket: TLSSocket): string | undefined {
  const { name } = (socket.getEphemeralKeyInfo() ?? {}) as { name?: string };
  return name === undefined || name === '' ? undefined : name;
}

const MAX_NAME_CHARACTERS = 255;

/** Returns the first names in a certificate. */
export function namesOf(certificate: X509Certificate): string[] {
  const names: string[] = certificate.subjectAltName?.match(/(?<=(?:^|, )(?:DNS|IP Address):)[^,]+/g) ?? [];
  if (names.length === 0) names.push(/^CN=(.*)$/m.exec(certificate.subject)?.[1] ?? '');
  return names
    .map((name) => name.replace(/[^\x21-\x7e]/g, '?').slice(0, MAX_NAME_CHARACTERS))
    .filter((name) => name !== '');
}

/** Returns the host's name if the certificate has it, otherwise its first name. */
export function peerNameOf(socket: TLSSocket, host: string): string | undefined {
  const leaf = socket.getPeerX509Certificate();
  return leaf && ((isIP(host) === 0 ? leaf.checkHost(host) : leaf.checkIP(host)) ?? namesOf(leaf)[0]);
}

const STARTTLS_REJECTED = 'the server offers STARTTLS but rejects it: ';

/** Explains why a session continues unencrypted after a 4xx or 5xx to STARTTLS. */
export function startTlsRefused(reply: SmtpReply): string {
  return `${STARTTLS_REJECTED}${reply.code} ${reply.text}`;
}

/** Returns whether a session is unencrypted because the server rejected STARTTLS, not because the handshake failed. */
export function isStartTlsRefused(tlsFallback: string): boolean {
  return tlsFallback.startsWith(STARTTLS_REJECTED);
}

/**
 * TLS towards other mail servers. Never below TLSv1.2. Opportunistic connections take any certificate and keys that a
 * verified one would find too short, because the alternative is no encryption at all (RFC 7435); verified ones check
 * the chain and the name. Contexts are made once: reading the certificate authorities costs milliseconds.
 */
import { isIP } from 'node:net';
import tls, { type ConnectionOptions, type SecureContext } from 'node:tls';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { OpenSmtpOptions } from './smtp-types.ts';

let opportunistic: SecureContext | undefined;
let verified: SecureContext | undefined;

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

/** Options for `tls.connect` towards `host`: checked against its certificate with `verify`, merely encrypted without. */
export function clientTlsOptions(host: string, options: { verify: boolean }): ConnectionOptions {
  return {
    secureContext: options.verify ? verifiedContext() : opportunisticContext(),
    rejectUnauthorized: options.verify,
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

export function startTlsRefused(reply: SmtpReply): string {
  return `the server offers STARTTLS and refuses it: ${reply.code} ${reply.text}`;
}

/**
 * What a recipient's domain requires of the connection to one of its MX hosts (MTA-STS, RFC 8461; DANE, RFC 7672), for delivery: whether
 * TLS is required, which certificates are acceptable, and the result for the reports (RFC 8460). One type for all policies; tls-policy.ts
 * finds them. A policy that is not mandatory is only checked.
 */

import { POLICY_UNMET } from '../net/error-sentence.ts';
import type { Inspection, OpenSmtpResult, PeerCertificate, SmtpError } from '../net/smtp-client.ts';
import { isStartTlsRefused, namesOf } from '../net/tls.ts';

/** Failure types in reports (RFC 8460 §4.3). */
export type TlsFailureType =
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure'
  | 'tlsa-invalid'
  | 'dnssec-invalid'
  | 'dane-required'
  | 'sts-policy-fetch-error'
  | 'sts-policy-invalid'
  | 'sts-webpki-invalid';

export interface TlsFailure {
  type: TlsFailureType;
  /** One sentence for operators and reports. */
  message: string;
}

/** The TLS result of one session. */
export interface TlsResult {
  failure?: TlsFailure;
  /** The address of the peer. */
  address?: string;
  /** The local address of the connection. */
  localAddress?: string;
}

/** A policy as reports name it (RFC 8460 §4.2). */
export interface AppliedPolicy {
  type: 'sts' | 'tlsa' | 'no-policy-found';
  /** Its owner: the recipient's domain, or the name of the TLSA records. */
  domain: string;
  /** The published policy, line by line or record by record; empty if it could not be fetched. */
  lines: readonly string[];
  /** The MX hosts in an MTA-STS policy. */
  mx: readonly string[];
}

/** A session that was opened, failed because of TLS, or was prevented by a policy, as reports count it. */
export interface TlsSession extends TlsResult {
  /** Domain of the recipient, in A-labels. */
  domain: string;
  /** The MX host. */
  host: string;
  policy: AppliedPolicy;
}

export interface HostPolicy {
  name: 'dane' | 'mta-sts' | 'mta-sts-testing' | 'opportunistic';
  /** Whether mail is never sent unencrypted or to a peer with an unacceptable certificate. */
  mandatory: boolean;
  /** The policy, as the start of a sentence: `the MTA-STS policy of example.com`. */
  words: string;
  /** The name in SNI, if it is not the host's. */
  serverName?: string;
  /** Returns why this certificate is not acceptable. Without it any certificate is. */
  check?(peer: PeerCertificate): TlsFailure | undefined;
  /** Counts a session for the reports. */
  note?(result: TlsResult): void;
}

/** The certificate check and the result of a connection under a policy. */
export interface UnderPolicy {
  inspect?: (peer: PeerCertificate) => Inspection;
  /** Counts the result, and explains if the policy was not met. */
  conclude(opened: OpenSmtpResult): OpenSmtpResult;
}

/** Returns the certificate check and the result for a connection under this policy. `sentence` explains an error. */
export function underPolicy(policy: HostPolicy, sentence: (error: SmtpError) => string): UnderPolicy {
  const { check, mandatory } = policy;
  let certificateFailure: TlsFailure | undefined;
  const inspect = (peer: PeerCertificate): Inspection => {
    certificateFailure = check!(peer);
    if (certificateFailure && mandatory) return { ok: false, cause: POLICY_UNMET, message: certificateFailure.message };
    return { ok: true, verified: certificateFailure === undefined };
  };
  const conclude = (opened: OpenSmtpResult): OpenSmtpResult => {
    const failure = certificateFailure ?? failureOf(opened, sentence);
    const address = opened.ok ? opened.session.remoteAddress : opened.error.remoteAddress;
    const { localAddress } = opened.ok ? opened.session : opened.error;
    if (failure || opened.ok) {
      policy.note?.({
        ...(failure && { failure }),
        ...(address && { address }),
        ...(localAddress && { localAddress }),
      });
    }
    if (opened.ok || !mandatory || !isAboutTls(opened.error)) return opened;
    const { reply: _, ...error } = opened.error;
    const message = certificateFailure?.message ?? `${policy.words} requires TLS; ${sentence(opened.error)}`;
    return { ok: false, error: { ...error, cause: POLICY_UNMET, message } };
  };
  return { ...(check && { inspect }), conclude };
}

/** Returns whether TLS failed; a 421 and injected bytes are something else. */
function isAboutTls({ stage, cause, reply }: SmtpError): boolean {
  if (cause === 'ECANCELLED' || cause === 'EINJECTED' || reply?.code === 421) return false;
  return stage === 'starttls' || stage === 'tls';
}

function failureOf(opened: OpenSmtpResult, sentence: (error: SmtpError) => string): TlsFailure | undefined {
  if (opened.ok) {
    const { tls, tlsFallback, remoteHost } = opened.session;
    if (tls !== undefined) return undefined;
    if (tlsFallback === undefined)
      return { type: 'starttls-not-supported', message: `${remoteHost} does not offer STARTTLS` };
    return {
      type: isStartTlsRefused(tlsFallback) ? 'starttls-not-supported' : 'validation-failure',
      message: tlsFallback,
    };
  }
  const { error } = opened;
  // Bytes injected after the reply to STARTTLS do not violate the policy, but indicate an attack.
  if (!isAboutTls(error) && error.cause !== 'EINJECTED') return undefined;
  return { type: typeOf(error), message: sentence(error) };
}

const EXPIRED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);
const SELF_SIGNED = new Set(['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN']);
const NOT_TRUSTED = /^(?:UNABLE_TO_|CERT_|INVALID_CA|DEPTH_ZERO|SELF_SIGNED)/;

/** Returns the type of a session that failed to open; the certificate is checked if the mail required that. */
function typeOf({ stage, cause = '' }: SmtpError): TlsFailureType {
  if (cause === 'EINJECTED') return 'validation-failure';
  if (EXPIRED.has(cause)) return 'certificate-expired';
  if (cause === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'certificate-host-mismatch';
  if (NOT_TRUSTED.test(cause)) return 'certificate-not-trusted';
  return stage === 'starttls' ? 'starttls-not-supported' : 'validation-failure';
}

/**
 * Returns why the certificate is not valid for the host by this machine's trusted authorities (RFC 8461 §4.1, RFC 6125); the message starts
 * with `wanted`. Only subjectAltNames are checked; a wildcard matches the complete first label.
 */
export function webPkiFailure(peer: PeerCertificate, host: string, wanted: string): TlsFailure | undefined {
  const { chainFault, leaf } = peer;
  if (chainFault !== undefined && EXPIRED.has(chainFault)) {
    const when = chainFault === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
    return { type: 'certificate-expired', message: `${wanted}, but the certificate ${when}` };
  }
  if (chainFault !== undefined) {
    const why = SELF_SIGNED.has(chainFault) ? 'is self-signed' : 'is from an issuer that is not trusted';
    return { type: 'certificate-not-trusted', message: `${wanted}, but the certificate ${why}` };
  }
  if (leaf.checkHost(host, { subject: 'never', partialWildcards: false }) !== undefined) return undefined;
  const names = namesOf(leaf).slice(0, 3).join(', ');
  return { type: 'certificate-host-mismatch', message: `${wanted}, but the certificate is for ${names || 'no name'}` };
}

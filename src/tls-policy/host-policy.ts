/**
 * What the domain that a mail goes to asks of the connection to one of its exchangers (MTA-STS, RFC 8461; DANE, RFC 7672), as the
 * delivery obeys it: whether TLS is needed, which certificate will do, and what came of it, for the reports (RFC 8460). One
 * shape for all policies; where they come from is tls-policy.ts. A policy that is not mandatory is looked at and stops nothing.
 */

import type { Inspection, OpenSmtpResult, PeerCertificate, SmtpError } from '../net/smtp-client.ts';
import { isStartTlsRefused, namesOf } from '../net/tls.ts';

/** As reports name them (RFC 8460 §4.3). */
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
  /** One sentence for people. */
  message: string;
}

/** What one session came to, as far as TLS is concerned. */
export interface TlsResult {
  failure?: TlsFailure;
  /** The address that was dialled. */
  address?: string;
  /** Our address on the connection. */
  localAddress?: string;
}

/** A policy as reports name it (RFC 8460 §4.2). */
export interface AppliedPolicy {
  type: 'sts' | 'tlsa' | 'no-policy-found';
  /** Whose it is: the recipient's domain, or where the TLSA records stand. */
  domain: string;
  /** What was published, line by line or record by record; empty where it could not be had. */
  lines: readonly string[];
  /** The exchangers that an MTA-STS policy names. */
  mx: readonly string[];
}

/** A session that was opened, or failed for TLS, or that a policy did not let begin: as reports count it. */
export interface TlsSession extends TlsResult {
  /** Of the recipient, in A-labels. */
  domain: string;
  /** The exchanger. */
  host: string;
  policy: AppliedPolicy;
}

export interface HostPolicy {
  name: 'dane' | 'mta-sts' | 'mta-sts-testing' | 'opportunistic';
  /** Nothing leaves in the clear, nor to a peer whose certificate will not do. */
  mandatory: boolean;
  /** Whose policy it is, as the beginning of a sentence: `the MTA-STS policy of example.com`. */
  words: string;
  /** The name in SNI, where it is not the host's. */
  serverName?: string;
  /** Why this certificate will not do. Without it any certificate will. */
  check?(peer: PeerCertificate): TlsFailure | undefined;
  /** Counts a session for the reports. */
  note?(result: TlsResult): void;
}

/** Of an error: a policy was not met; its message is a sentence for people. */
export const POLICY_UNMET = 'EPOLICY';

/** A connection under a policy: what looks at the certificate, and what to make of the result. */
export interface UnderPolicy {
  inspect?: (peer: PeerCertificate) => Inspection;
  /** Counts the result, and says in words that the policy was not met. */
  conclude(opened: OpenSmtpResult): OpenSmtpResult;
}

/** `sentence` puts an error into words. */
export function underPolicy(policy: HostPolicy, sentence: (error: SmtpError) => string): UnderPolicy {
  const { check, mandatory } = policy;
  let unfit: TlsFailure | undefined;
  const inspect = (peer: PeerCertificate): Inspection => {
    unfit = check!(peer);
    if (unfit && mandatory) return { ok: false, cause: POLICY_UNMET, message: unfit.message };
    return { ok: true, verified: unfit === undefined };
  };
  const conclude = (opened: OpenSmtpResult): OpenSmtpResult => {
    const failure = unfit ?? failureOf(opened, sentence);
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
    const message = unfit?.message ?? `${policy.words} requires TLS; ${sentence(opened.error)}`;
    return { ok: false, error: { ...error, cause: POLICY_UNMET, message } };
  };
  return { ...(check && { inspect }), conclude };
}

/** TLS could not be had; a farewell (421) and bytes injected by somebody on the way are something else. */
function isAboutTls({ stage, cause, reply }: SmtpError): boolean {
  if (cause === 'ECANCELLED' || cause === 'EINJECTED' || reply?.code === 421) return false;
  return stage === 'starttls' || stage === 'tls';
}

function failureOf(opened: OpenSmtpResult, sentence: (error: SmtpError) => string): TlsFailure | undefined {
  if (opened.ok) {
    const { tls, tlsFallback, remoteHost } = opened.session;
    if (tls !== undefined) return undefined;
    if (tlsFallback === undefined)
      return { type: 'starttls-not-supported', message: `${remoteHost} offers no STARTTLS` };
    return {
      type: isStartTlsRefused(tlsFallback) ? 'starttls-not-supported' : 'validation-failure',
      message: tlsFallback,
    };
  }
  const { error } = opened;
  // Bytes injected behind the reply to STARTTLS say nothing of the policy, but a great deal of the way.
  if (!isAboutTls(error) && error.cause !== 'EINJECTED') return undefined;
  return { type: typeOf(error), message: sentence(error) };
}

const EXPIRED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);
const SELF_SIGNED = new Set(['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN']);
const NOT_TRUSTED = /^(?:UNABLE_TO_|CERT_|INVALID_CA|DEPTH_ZERO|SELF_SIGNED)/;

/** Of a session that did not come to be; the certificate is looked at where the mail asked for that. */
function typeOf({ stage, cause = '' }: SmtpError): TlsFailureType {
  if (cause === 'EINJECTED') return 'validation-failure';
  if (EXPIRED.has(cause)) return 'certificate-expired';
  if (cause === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'certificate-host-mismatch';
  if (NOT_TRUSTED.test(cause)) return 'certificate-not-trusted';
  return stage === 'starttls' ? 'starttls-not-supported' : 'validation-failure';
}

/**
 * Why the certificate is not valid for the host by the authorities that this machine trusts (RFC 8461 §4.1, RFC 6125); `wanted` begins the
 * sentence. Only names among the subjectAltName count, a wildcard for the whole first label.
 */
export function webPkiFailure(peer: PeerCertificate, host: string, wanted: string): TlsFailure | undefined {
  const { chainFault, leaf } = peer;
  if (chainFault !== undefined && EXPIRED.has(chainFault)) {
    const when = chainFault === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
    return { type: 'certificate-expired', message: `${wanted}; the certificate ${when}` };
  }
  if (chainFault !== undefined) {
    const why = SELF_SIGNED.has(chainFault) ? 'is self-signed' : 'is from an issuer that is not trusted';
    return { type: 'certificate-not-trusted', message: `${wanted}; the certificate ${why}` };
  }
  if (leaf.checkHost(host, { subject: 'never', partialWildcards: false }) !== undefined) return undefined;
  const names = namesOf(leaf).slice(0, 3).join(', ');
  return { type: 'certificate-host-mismatch', message: `${wanted}; the certificate is for ${names || 'no name'}` };
}

/**
 * DANE for SMTP (RFC 7672): an MX host publishes its certificate in TLSA records, in a zone signed by DNSSEC. The records apply only if the
 * MX records and the addresses are secure too. If they are, a failed lookup delays the mail: an attacker may be suppressing the answer.
 * Usages 3 (this certificate) and 2 (issued by this certificate) with a full, SHA-256, or SHA-512 match are usable. If records exist and
 * none is usable, TLS is required with any certificate (§2.2).
 *
 * With usage 3 only the records matter, neither names nor dates (§3.1.1); with usage 2 names and dates too, up to the issuer that they
 * name. Length and purpose limits that an issuer sets itself (pathlen, key usage) are not checked.
 */
import { createHash, X509Certificate } from 'node:crypto';
import type { Dns, TlsaRecord } from '../net/dns.ts';
import type { PeerCertificate } from '../net/smtp-client.ts';
import { namesOf } from '../net/tls.ts';
import type { TlsFailure } from './host-policy.ts';

export type DaneAnswer =
  | { kind: 'none' }
  /** The lookup of the records failed; `cause` is the resolver's error code. */
  | { kind: 'failed'; name: string; cause: string }
  /** `base` is the name of the records, and the name in SNI; `usable` may be empty. */
  | { kind: 'found'; base: string; records: TlsaRecord[]; usable: TlsaRecord[] };

const NONE: DaneAnswer = { kind: 'none' };

/** Looks up the TLSA records of a host in a domain's secure MX records (§2.2.2, §2.2.3). */
export async function lookUpDane(dns: Dns, host: string, port: number): Promise<DaneAnswer> {
  const addresses = await dns.resolveAddresses(host);
  // Recently found records may have expired, and an attacker may be suppressing the next answer.
  if (addresses.status === 'temporary') return { kind: 'failed', name: host, cause: addresses.cause };
  if (addresses.status !== 'found') return NONE;
  const { canonicalName } = addresses;
  let bases: string[];
  if (addresses.secure) bases = canonicalName === host ? [host] : [canonicalName, host];
  else if (canonicalName === host) return NONE;
  else {
    // If the alias is signed but its target is not, only the alias's own name applies.
    const alias = await dns.resolveCname(host);
    if (alias.status === 'temporary') return { kind: 'failed', name: host, cause: alias.cause };
    if (alias.status !== 'found' || !alias.secure) return NONE;
    bases = [host];
  }
  for (const base of bases) {
    const name = `_${port}._tcp.${base}`;
    const tlsa = await dns.resolveTlsa(name);
    if (tlsa.status === 'temporary') return { kind: 'failed', name, cause: tlsa.cause };
    if (tlsa.status === 'found' && tlsa.secure) {
      return { kind: 'found', base, records: tlsa.value, usable: tlsa.value.filter(isUsable) };
    }
  }
  return NONE;
}

const DIGESTS = [undefined, { algorithm: 'sha256', bytes: 32 }, { algorithm: 'sha512', bytes: 64 }] as const;

/** RFC 7672 §3.1: usages 0 and 1 are not for mail servers. */
function isUsable({ usage, selector, matching, data }: TlsaRecord): boolean {
  if ((usage !== 2 && usage !== 3) || selector > 1 || matching > 2 || data.length === 0) return false;
  const digest = DIGESTS[matching];
  return digest === undefined || data.length === digest.bytes;
}

/** Returns where a DER value's content starts and ends. Certificates have no lengths of more than four bytes. */
function derValue(der: Buffer, at: number): { tag: number; start: number; end: number } {
  const first = der[at + 1] ?? 0;
  const more = first > 0x80 ? first - 0x80 : 0;
  const length = more === 0 ? first : der.readUIntBE(at + 2, Math.min(more, 4));
  const start = at + 2 + more;
  return { tag: der[at] ?? 0, start, end: start + length };
}

/** Returns the SubjectPublicKeyInfo of a certificate, byte for byte (RFC 5280 §4.1): the seventh field, or the sixth without a version. */
export function publicKeyInfo(der: Buffer): Buffer {
  let at = derValue(der, derValue(der, 0).start).start;
  if (derValue(der, at).tag === 0xa0) at = derValue(der, at).end;
  for (let field = 0; field < 5; field += 1) at = derValue(der, at).end;
  return der.subarray(at, derValue(der, at).end);
}

function matches({ selector, matching, data }: TlsaRecord, certificate: X509Certificate): boolean {
  const selected = selector === 1 ? publicKeyInfo(certificate.raw) : certificate.raw;
  const digest = DIGESTS[matching];
  return data.equals(digest ? createHash(digest.algorithm).update(selected).digest() : selected);
}

export interface DaneCheck {
  usable: readonly TlsaRecord[];
  /** The certificate must have one of these names, for usage 2 (§3.2.3). */
  names: readonly string[];
  /** The records, as the start of a sentence: `the TLSA records of mx.example.com (DANE)`. */
  words: string;
  nowMs: number;
}

/** Returns why the certificate does not match the records. */
export function daneFailure({ leaf, issuers }: PeerCertificate, check: DaneCheck): TlsFailure | undefined {
  const { usable, words } = check;
  if (usable.some((record) => record.usage === 3 && matches(record, leaf))) return undefined;
  const found = anchoredChain(leaf, issuers, usable);
  const shown = namesOf(leaf)[0] ?? 'no name';
  if (!found) {
    return { type: 'validation-failure', message: `${words} do not match the certificate of ${shown}` };
  }
  const isExpired = found.some((one) => one.validToDate.getTime() < check.nowMs);
  if (isExpired || found.some((one) => one.validFromDate.getTime() > check.nowMs)) {
    const when = isExpired ? 'has expired' : 'is not valid yet';
    return {
      type: 'certificate-expired',
      message: `${words} require a valid certificate, but the certificate of ${shown} ${when}`,
    };
  }
  const options = { subject: 'never', partialWildcards: false } as const;
  if (check.names.some((name) => leaf.checkHost(name, options) !== undefined)) return undefined;
  const wanted = `${words} require a certificate for ${check.names[0]}`;
  return { type: 'certificate-host-mismatch', message: `${wanted}, but the certificate is for ${shown}` };
}

/** Returns the certificates from the peer's own to an issuer that a usage 2 record names, each signed by the next. */
function anchoredChain(
  leaf: X509Certificate,
  issuers: readonly X509Certificate[],
  usable: readonly TlsaRecord[],
): X509Certificate[] | undefined {
  const anchors = usable.filter((record) => record.usage === 2);
  if (anchors.length === 0) return undefined;
  // A record with the full certificate can replace one that the peer did not send.
  const whole = anchors.flatMap((record) =>
    record.selector === 0 && record.matching === 0 ? parsed(record.data) : [],
  );
  const chain = [leaf];
  for (;;) {
    const last = chain.at(-1)!;
    const issuer = [...(issuers[chain.length - 1] ? [issuers[chain.length - 1]!] : []), ...whole].find((one) =>
      isIssuedBy(last, one),
    );
    if (!issuer || chain.length > issuers.length + 1) return undefined;
    chain.push(issuer);
    if (anchors.some((record) => matches(record, issuer))) return chain;
  }
}

function parsed(der: Buffer): X509Certificate[] {
  try {
    return [new X509Certificate(der)];
  } catch {
    return [];
  }
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    // A key type that this machine does not support.
    return false;
  }
}

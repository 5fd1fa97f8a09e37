/**
 * Certificates of the simulated TLS, as far as they are used: their key (which TLSA records name), and whether they are valid for the
 * requested name. They are encoded in DER, so that the product finds the key as in a real one.
 */
import { createHash } from 'node:crypto';

export interface Certificate {
  /** Below 100,000. */
  key: number;
  /** Issued by a trusted authority, for any requested name. */
  isValid: boolean;
}

const SEQUENCE = 0x30;
const OCTETS = 0x04;

function der(tag: number, ...content: Buffer[]): Buffer {
  const inside = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag, inside.length]), inside]);
}

/** A replacement for the SubjectPublicKeyInfo (RFC 5280 §4.1). */
const publicKey = (key: number): Buffer => der(SEQUENCE, der(OCTETS, Buffer.from(`key ${key}`)));

/** In the form of X509Certificate. */
export function shown({ key, isValid }: Certificate) {
  // Serial number, algorithm, issuer, validity, subject: unused.
  const before = Array.from({ length: 5 }, () => der(SEQUENCE));
  return {
    raw: der(SEQUENCE, der(SEQUENCE, ...before, publicKey(key))),
    subject: '',
    subjectAltName: `DNS:key-${key}.example`,
    checkHost: (host: string): string | undefined => (isValid ? host : undefined),
  };
}

/** TLSA 3 1 1 (RFC 7672 §3.1.1): this key, by its SHA-256. */
export function tlsaOf(key: number) {
  const certificate = createHash('sha256').update(publicKey(key)).digest();
  return { usage: 3, selector: 1, matchingType: 1, certificate };
}

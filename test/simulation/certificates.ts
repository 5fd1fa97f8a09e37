/**
 * Certificates of the simulated TLS, as far as anybody looks at them: which key is in it (the one that TLSA records name), and whether it is
 * valid for the name that is asked for. They stand in DER, so that the product finds the key as in a real one.
 */
import { createHash } from 'node:crypto';

export interface Certificate {
  /** Below 100,000. */
  key: number;
  /** By an authority, for any name that is asked for. */
  isValid: boolean;
}

const SEQUENCE = 0x30;
const OCTETS = 0x04;

function der(tag: number, ...content: Buffer[]): Buffer {
  const inside = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag, inside.length]), inside]);
}

/** What stands for the SubjectPublicKeyInfo (RFC 5280 §4.1). */
const publicKey = (key: number): Buffer => der(SEQUENCE, der(OCTETS, Buffer.from(`key ${key}`)));

/** As X509Certificate has it. */
export function shown({ key, isValid }: Certificate) {
  // Serial number, algorithm, issuer, validity, subject: nobody looks at them.
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

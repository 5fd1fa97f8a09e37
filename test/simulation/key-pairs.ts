/**
 * Key pairs that are the same in every run of a scenario. Node generates keys from the randomness of the machine, and a rotated key is part
 * of an answer, so that the scenario would send other bytes each time.
 */
import crypto, { type KeyObject } from 'node:crypto';

interface KeyPair {
  privateKey: KeyObject;
  publicKey: KeyObject;
}

/** Added to a number of 1,024 bits that is derived from the position here, each makes a prime. */
const TO_PRIME = [1218, 90, 236, 326, 266, 1048] as const;
const EXPONENT = 65_537n;
/** PKCS #8 of an Ed25519 key up to its 32 bytes (RFC 8410 §7). */
const ED25519_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

const derived = (position: number): bigint => {
  const part = (index: number): string => crypto.createHash('sha512').update(`${position} ${index}`).digest('hex');
  return BigInt(`0x${part(0)}${part(1)}`) | (3n << 1022n) | 1n;
};

/** Returns x with a · x ≡ 1 modulo m. */
function inverse(a: bigint, m: bigint): bigint {
  let [r, next, x, nextX] = [m, a % m, 0n, 1n];
  while (next > 0n) {
    const quotient = r / next;
    [r, next] = [next, r - quotient * next];
    [x, nextX] = [nextX, x - quotient * nextX];
  }
  return ((x % m) + m) % m;
}

function rsaOf(p: bigint, q: bigint): KeyPair {
  const d = inverse(EXPONENT, (p - 1n) * (q - 1n));
  const bytes = (value: bigint): string => {
    const hex = value.toString(16);
    return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex').toString('base64url');
  };
  const key = {
    kty: 'RSA',
    n: bytes(p * q),
    e: bytes(EXPONENT),
    d: bytes(d),
    p: bytes(p),
    q: bytes(q),
    dp: bytes(d % (p - 1n)),
    dq: bytes(d % (q - 1n)),
    qi: bytes(inverse(q, p)),
  };
  const privateKey = crypto.createPrivateKey({ key, format: 'jwk' });
  return { privateKey, publicKey: crypto.createPublicKey(privateKey) };
}

const rsaPairs = new Map<number, KeyPair>();

/** Returns one of the RSA-2048 pairs that the primes above make. */
function rsaPair(below: (end: number) => number): KeyPair {
  const first = below(TO_PRIME.length);
  const second = (first + 1 + below(TO_PRIME.length - 1)) % TO_PRIME.length;
  const position = first * TO_PRIME.length + second;
  const prime = (at: number): bigint => derived(at) + BigInt(TO_PRIME[at]!);
  const pair = rsaPairs.get(position) ?? rsaOf(prime(first), prime(second));
  rsaPairs.set(position, pair);
  return pair;
}

function ed25519Pair(seed: Uint8Array): KeyPair {
  const key = Buffer.concat([ED25519_PREFIX, seed]);
  const privateKey = crypto.createPrivateKey({ key, format: 'der', type: 'pkcs8' });
  return { privateKey, publicKey: crypto.createPublicKey(privateKey) };
}

/** Returns a pair of the type, chosen by the randomness of the scenario; undefined for other types. */
export function keyPairOf(
  type: string,
  random: { below(end: number): number; fill(bytes: Uint8Array): void },
): KeyPair | undefined {
  if (type === 'rsa') return rsaPair((end) => random.below(end));
  if (type !== 'ed25519') return undefined;
  const seed = Buffer.alloc(32);
  random.fill(seed);
  return ed25519Pair(seed);
}

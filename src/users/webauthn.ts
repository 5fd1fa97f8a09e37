/**
 * Verifies the registration and the assertion of a passkey as WebAuthn Level 3 §7.1 and §7.2 require: challenge, origin, relying party,
 * user presence and verification, backup flags, signature, and signature counter. Algorithms: ES256, EdDSA, and RS256. Postrider asks for
 * no attestation and trusts none: it accepts the formats "none" and self attestation, and no certificates. Pure; the caller issues
 * challenges, stores credentials, and accepts each challenge once.
 */
import { createHash, createPublicKey, type KeyObject, timingSafeEqual, verify, type webcrypto } from 'node:crypto';
import { invalid, ok, type Result, refuse } from '../base/failure.ts';
import { CborError, type CborMap, readCborMap } from './cbor.ts';

/** A credential as PublicKeyCredential.toJSON() returns it (§5.1): bytes are base64url without padding. */
interface PublicKeyCredentialJson {
  id: string;
  rawId: string;
  type: 'public-key';
}

/** RegistrationResponseJSON, the fields that are used. */
export interface RegistrationCredential extends PublicKeyCredentialJson {
  response: { clientDataJSON: string; attestationObject: string; transports?: string[] };
}

/** AuthenticationResponseJSON, the fields that are used. */
export interface AssertionCredential extends PublicKeyCredentialJson {
  response: { clientDataJSON: string; authenticatorData: string; signature: string; userHandle?: string | null };
}

export interface Expected {
  isChallenge: (challenge: string) => boolean;
  /** Origins of the pages that can ask for a passkey. */
  origins: readonly string[];
  rpId: string;
}

/** The part of the credential record (§4) that is stored. */
export interface StoredCredential {
  /** base64url. */
  id: string;
  /** COSE_Key (RFC 9052 §7) as the authenticator encoded it. */
  publicKey: Uint8Array;
  counter: number;
}

/** COSE algorithms (RFC 9053, RFC 8812), the preferred first. */
export const ALGORITHMS = { EdDSA: -8, ES256: -7, RS256: -257 };

const RP_ID_HASH_BYTES = 32;
const FIXED_BYTES = 37;
const AAGUID_BYTES = 16;
const CREDENTIAL_ID_BYTES_AT_MOST = 1_023;
/** Authenticator data flags (§6.1). */
const FLAGS = {
  userPresent: 0x01,
  userVerified: 0x04,
  backupEligible: 0x08,
  backedUp: 0x10,
  attestedData: 0x40,
  extensionData: 0x80,
};

class Rejection extends Error {}

function check(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new Rejection(reason);
}

function resultOf<T>(verification: () => T): Result<T> {
  try {
    return ok(verification());
  } catch (error) {
    if (!(error instanceof Rejection || error instanceof CborError)) throw error;
    return refuse(invalid([{ field: 'credential', message: `was not accepted: ${error.message}` }]));
  }
}

const sha256 = (data: Uint8Array | string): Buffer => createHash('sha256').update(data).digest();

function bytesOf(text: string, field: string): Buffer {
  const bytes = Buffer.from(text, 'base64url');
  check(bytes.toString('base64url') === text, `${field} must be base64url without padding`);
  return bytes;
}

/** Returns the challenge. §7.1 steps 5 to 12, §7.2 steps 8 to 14. */
function checkClientData(json: Buffer, type: 'webauthn.create' | 'webauthn.get', expected: Expected): string {
  const data = objectOf(json.toString('utf8'));
  check(data !== undefined, 'clientDataJSON must be a JSON object');
  check(data.type === type, `the type in clientDataJSON must be ${type}`);
  const { challenge, origin } = data;
  check(
    typeof challenge === 'string' && expected.isChallenge(challenge),
    'its challenge is unknown or has expired. Start again',
  );
  check(
    typeof origin === 'string' && expected.origins.includes(origin),
    `the page must be at ${expected.origins.join(' or ')}`,
  );
  check(data.crossOrigin !== true && data.topOrigin === undefined, 'the page must not be in a frame of another site');
  return challenge;
}

function objectOf(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

interface AttestedCredential {
  id: Buffer;
  publicKey: Buffer;
}

interface AuthenticatorData {
  rpIdHash: Buffer;
  flags: number;
  counter: number;
  attested: AttestedCredential | undefined;
}

/** §6.1. */
function readAuthenticatorData(bytes: Buffer): AuthenticatorData {
  check(bytes.length >= FIXED_BYTES, 'authenticatorData is truncated');
  const flags = bytes[RP_ID_HASH_BYTES]!;
  let end = FIXED_BYTES;
  let attested: AttestedCredential | undefined;
  if (flags & FLAGS.attestedData) ({ attested, end } = readAttestedCredential(bytes, end));
  if (flags & FLAGS.extensionData) ({ end } = readCborMap(bytes, end));
  check(end === bytes.length, 'authenticatorData has trailing bytes');
  return {
    rpIdHash: bytes.subarray(0, RP_ID_HASH_BYTES),
    flags,
    counter: bytes.readUInt32BE(RP_ID_HASH_BYTES + 1),
    attested,
  };
}

/** §6.5.1: AAGUID, length of the ID, ID, COSE_Key. */
function readAttestedCredential(bytes: Buffer, start: number): { attested: AttestedCredential; end: number } {
  const lengthAt = start + AAGUID_BYTES;
  check(bytes.length >= lengthAt + 2, 'authenticatorData is truncated');
  const idBytes = bytes.readUInt16BE(lengthAt);
  check(idBytes > 0 && idBytes <= CREDENTIAL_ID_BYTES_AT_MOST, 'its ID must have 1 to 1,023 bytes');
  const keyAt = lengthAt + 2 + idBytes;
  check(bytes.length > keyAt, 'authenticatorData is truncated');
  const { end } = readCborMap(bytes, keyAt);
  return { attested: { id: bytes.subarray(lengthAt + 2, keyAt), publicKey: bytes.subarray(keyAt, end) }, end };
}

/** §7.1 steps 14 to 18, §7.2 steps 15 to 19. */
function checkAuthenticatorData({ rpIdHash, flags }: AuthenticatorData, rpId: string): void {
  check(timingSafeEqual(rpIdHash, sha256(rpId)), `it belongs to another host, not to ${rpId}`);
  check((flags & FLAGS.userPresent) !== 0, 'the authenticator did not test user presence');
  check(
    (flags & FLAGS.userVerified) !== 0,
    'the authenticator did not verify the user. Set up a PIN or biometrics on it first',
  );
  const isBackedUp = (flags & FLAGS.backedUp) !== 0;
  check(!isBackedUp || (flags & FLAGS.backupEligible) !== 0, 'it is backed up, but not eligible for backup');
}

interface PublicKey {
  algorithm: number;
  key: KeyObject;
}

/** Labels of COSE_Key and its parameters (RFC 9052 §7, RFC 9053 §7, RFC 8230 §4). */
const COSE = { kty: 1, alg: 3, crv: -1, x: -2, y: -3, n: -1, e: -2 };

function readPublicKey(publicKey: Uint8Array): PublicKey {
  const { map } = readCborMap(Buffer.from(publicKey));
  const algorithm = map.get(COSE.alg);
  const jwk = jwkOf(map);
  check(typeof algorithm === 'number' && jwk !== undefined, 'its key must be ES256, EdDSA, or RS256');
  const key = keyObjectOf(jwk);
  check(key !== undefined, 'its public key is not valid');
  return { algorithm, key };
}

/** Returns undefined if the key has another algorithm, or parameters that do not fit its algorithm. */
function jwkOf(cose: CborMap): webcrypto.JsonWebKey | undefined {
  const bytes = (label: number, least: number, most = least): string => {
    const value = cose.get(label);
    const isValid = Buffer.isBuffer(value) && value.length >= least && value.length <= most;
    check(isValid, 'a parameter of its public key is missing or has the wrong length');
    return value.toString('base64url');
  };
  const [kty, alg, crv] = [cose.get(COSE.kty), cose.get(COSE.alg), cose.get(COSE.crv)];
  if (alg === ALGORITHMS.ES256 && kty === 2 && crv === 1)
    return { kty: 'EC', crv: 'P-256', x: bytes(COSE.x, 32), y: bytes(COSE.y, 32) };
  if (alg === ALGORITHMS.EdDSA && kty === 1 && crv === 6) return { kty: 'OKP', crv: 'Ed25519', x: bytes(COSE.x, 32) };
  // 2,048 to 4,096 bits: a longer modulus takes milliseconds to verify.
  if (alg === ALGORITHMS.RS256 && kty === 3) return { kty: 'RSA', n: bytes(COSE.n, 256, 512), e: bytes(COSE.e, 1, 4) };
  return undefined;
}

function keyObjectOf(jwk: webcrypto.JsonWebKey): KeyObject | undefined {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    return undefined;
  }
}

/** §6.5.5: an ES256 signature is DER (RFC 3279 §2.2.3); the other algorithms have one form. */
function checkSignature({ algorithm, key }: PublicKey, signed: Buffer, signature: Buffer): void {
  const hash = algorithm === ALGORITHMS.EdDSA ? null : 'sha256';
  check(verify(hash, signed, { key, dsaEncoding: 'der' }, signature), 'its signature is not valid');
}

/** §8.7 "none", and §8.2 "packed" without a certificate (self attestation), which browsers pass on even if "none" was requested. */
function checkAttestation(attestation: CborMap, key: PublicKey, signed: Buffer): void {
  const statement = attestation.get('attStmt');
  check(statement instanceof Map, 'attestationObject has no attStmt');
  const format = attestation.get('fmt');
  if (format === 'none') {
    check(statement.size === 0, 'the attestation "none" must have no statement');
    return;
  }
  check(format === 'packed' && !statement.has('x5c'), 'its attestation must be "none" or self attestation');
  check(statement.get('alg') === key.algorithm, 'the algorithm of its attestation must be that of its key');
  const signature = statement.get('sig');
  check(Buffer.isBuffer(signature), 'its attestation has no signature');
  checkSignature(key, signed, signature);
}

/** §7.1. Returns the credential to store and the challenge that it answers; INVALID_REQUEST with the reason if it is not valid. */
export function verifyRegistration(
  credential: RegistrationCredential,
  expected: Expected,
): Result<StoredCredential & { challenge: string }> {
  return resultOf(() => {
    const { id, rawId, response } = credential;
    check(id === rawId, 'id and rawId must be equal');
    const clientData = bytesOf(response.clientDataJSON, 'clientDataJSON');
    const challenge = checkClientData(clientData, 'webauthn.create', expected);
    const attestationObject = bytesOf(response.attestationObject, 'attestationObject');
    const { map: attestation, end } = readCborMap(attestationObject);
    check(end === attestationObject.length, 'attestationObject has trailing bytes');
    const authData = attestation.get('authData');
    check(Buffer.isBuffer(authData), 'attestationObject has no authData');
    const data = readAuthenticatorData(authData);
    checkAuthenticatorData(data, expected.rpId);
    const { attested, counter } = data;
    check(attested !== undefined, 'authenticatorData has no credential');
    check(attested.id.toString('base64url') === id, 'id must be that of the credential in attestationObject');
    const publicKey = Uint8Array.from(attested.publicKey);
    checkAttestation(attestation, readPublicKey(publicKey), Buffer.concat([authData, sha256(clientData)]));
    return { id, publicKey, counter, challenge };
  });
}

/**
 * §7.2. `userId` is the ID of the user who owns the stored credential. The counter must be above the stored one, unless both are 0:
 * authenticators that do not count always send 0. Returns the new counter and the challenge that the credential answers;
 * INVALID_REQUEST with the reason if it is not valid.
 */
export function verifyAssertion(
  credential: AssertionCredential,
  stored: StoredCredential & { userId: string },
  expected: Expected,
): Result<{ counter: number; challenge: string }> {
  return resultOf(() => {
    const { id, rawId, response } = credential;
    check(id === rawId && id === stored.id, 'id and rawId must be those of the stored credential');
    // Step 6. The ID identifies the user; a handle of another user shows that the response was put together.
    const { userHandle } = response;
    const isOwner = userHandle === undefined || userHandle === null || isHandleOf(stored.userId, userHandle);
    check(isOwner, 'userHandle must be that of its owner');
    const clientData = bytesOf(response.clientDataJSON, 'clientDataJSON');
    const challenge = checkClientData(clientData, 'webauthn.get', expected);
    const authData = bytesOf(response.authenticatorData, 'authenticatorData');
    const data = readAuthenticatorData(authData);
    checkAuthenticatorData(data, expected.rpId);
    const signature = bytesOf(response.signature, 'signature');
    checkSignature(readPublicKey(stored.publicKey), Buffer.concat([authData, sha256(clientData)]), signature);
    const isAbove = data.counter > stored.counter || (data.counter === 0 && stored.counter === 0);
    check(isAbove, 'its signature counter went back, as that of a copied authenticator does');
    return { counter: data.counter, challenge };
  });
}

const isHandleOf = (userId: string, userHandle: string): boolean =>
  Buffer.from(userHandle, 'base64url').equals(Buffer.from(userId));

/** The second factors of a user in tests: an authenticator app, and a device with a passkey that has real keys and signatures. */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { hotp, totpStep } from '../../src/users/totp.ts';

/** Returns the code that an app shows for a secret in Base32, `by` steps of 30 s away. */
export function totpCode(secret: string, nowMs: number, by = 0): string {
  const bits = [...secret]
    .map((one) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(one).toString(2).padStart(5, '0'))
    .join('');
  const bytes = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  return hotp(bytes, totpStep(nowMs) + by);
}

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest();
export const USER_PRESENT = 0x01;
export const USER_VERIFIED = 0x04;
const ATTESTED_DATA = 0x40;

/** Bytes that are CBOR already. */
export class Encoded {
  readonly bytes: Buffer;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
}

export type CborInput = number | string | boolean | Buffer | Encoded | CborInput[] | Map<number | string, CborInput>;

/** Encodes a value as CBOR (RFC 8949) with the shortest lengths, maps in their order. */
export function cbor(value: CborInput): Buffer {
  if (value instanceof Encoded) return value.bytes;
  if (typeof value === 'boolean') return Buffer.of(value ? 0xf5 : 0xf4);
  if (typeof value === 'number') return value < 0 ? cborHead(1, -1 - value) : cborHead(0, value);
  if (typeof value === 'string') return Buffer.concat([cborHead(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([cborHead(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([cborHead(4, value.length), ...value.map(cbor)]);
  return Buffer.concat([cborHead(5, value.size), ...[...value].flat().map(cbor)]);
}

function cborHead(major: number, argument: number): Buffer {
  if (argument < 24) return Buffer.of((major << 5) | argument);
  if (argument < 256) return Buffer.of((major << 5) | 24, argument);
  const head = Buffer.of((major << 5) | 25, 0, 0);
  head.writeUInt16BE(argument, 1);
  return head;
}

export type PasskeyAlgorithm = 'ES256' | 'EdDSA' | 'RS256';

function keyPairOf(algorithm: PasskeyAlgorithm): { privateKey: KeyObject; publicKey: KeyObject } {
  if (algorithm === 'ES256') return generateKeyPairSync('ec', { namedCurve: 'P-256' });
  if (algorithm === 'EdDSA') return generateKeyPairSync('ed25519');
  return generateKeyPairSync('rsa', { modulusLength: 2_048 });
}

/** Returns the COSE_Key (RFC 9052 §7) of a public key. */
function coseOf(algorithm: PasskeyAlgorithm, publicKey: KeyObject): Map<number, CborInput> {
  const jwk = publicKey.export({ format: 'jwk' });
  const bytes = (value: string | undefined) => Buffer.from(value ?? '', 'base64url');
  const [kty, alg, crv, x, y] = [1, 3, -1, -2, -3];
  if (algorithm === 'ES256')
    return new Map<number, CborInput>([
      [kty, 2],
      [alg, -7],
      [crv, 1],
      [x, bytes(jwk.x)],
      [y, bytes(jwk.y)],
    ]);
  if (algorithm === 'EdDSA')
    return new Map<number, CborInput>([
      [kty, 1],
      [alg, -8],
      [crv, 6],
      [x, bytes(jwk.x)],
    ]);
  return new Map<number, CborInput>([
    [kty, 3],
    [alg, -257],
    [-1, bytes(jwk.n)],
    [-2, bytes(jwk.e)],
  ]);
}

/** Deviations from a correct response. Data of an assertion is signed after the change. */
export interface Bent {
  origin?: string;
  rpId?: string;
  flags?: number;
  type?: string;
  challenge?: string;
  counter?: number;
  /** More members of the client data. */
  clientData?: Record<string, unknown>;
  /** Appended to the authenticator data. */
  extensions?: Buffer;
  cose?: CborInput;
  userHandle?: string | null;
  /** Returns the attestation object for the authenticator data and the hash of the client data. */
  attestation?: (authData: Buffer, clientDataHash: Buffer) => CborInput;
}

export interface PasskeyResponse {
  id: string;
  rawId: string;
  type: 'public-key';
  response: Record<string, string | null>;
  clientExtensionResults: object;
}

export type RegistrationResponse = PasskeyResponse & {
  response: { clientDataJSON: string; attestationObject: string };
};

export type AssertionResponse = PasskeyResponse & {
  response: { clientDataJSON: string; authenticatorData: string; signature: string; userHandle: string | null };
};

interface OfferedOptions {
  challenge: string;
  user?: { id: string };
}

/** Returns an attestation object (WebAuthn §6.5.4). */
export function attestationObject(format: string, statement: Map<string, CborInput>, authData: Buffer): CborInput {
  return new Map<string, CborInput>([
    ['fmt', format],
    ['attStmt', statement],
    ['authData', authData],
  ]);
}

/** A platform authenticator with one discoverable credential (WebAuthn §6), without attestation. */
export class PasskeyDevice {
  readonly id: Buffer = randomBytes(32);
  readonly publicKey: KeyObject;
  readonly cose: Map<number, CborInput>;
  counter = 1;
  /** The user of the credential, in base64url. */
  userHandle: string | null = null;
  #algorithm: PasskeyAlgorithm;
  #privateKey: KeyObject;
  #origin: string;

  constructor(origin: string, algorithm: PasskeyAlgorithm = 'ES256', keyPair = keyPairOf(algorithm)) {
    this.#origin = origin;
    this.#algorithm = algorithm;
    this.#privateKey = keyPair.privateKey;
    this.publicKey = keyPair.publicKey;
    this.cose = coseOf(algorithm, keyPair.publicKey);
  }

  sign(data: Buffer, key = this.#privateKey): Buffer {
    return sign(this.#algorithm === 'EdDSA' ? null : 'sha256', data, key);
  }

  create(options: OfferedOptions, bent: Bent = {}): RegistrationResponse {
    this.userHandle = options.user?.id ?? null;
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.id.length);
    const attested = Buffer.concat([Buffer.alloc(16), length, this.id, cbor(bent.cose ?? this.cose)]);
    const flags = (bent.flags ?? USER_PRESENT | USER_VERIFIED) | ATTESTED_DATA;
    const authData = this.#authenticatorData(flags, bent, attested);
    const clientData = this.#clientData('webauthn.create', options, bent);
    const { attestation = (data: Buffer) => attestationObject('none', new Map(), data) } = bent;
    return this.#credential({
      clientDataJSON: clientData.toString('base64url'),
      attestationObject: cbor(attestation(authData, sha256(clientData))).toString('base64url'),
    });
  }

  get(options: OfferedOptions, bent: Bent = {}, key = this.#privateKey): AssertionResponse {
    this.counter += 1;
    const authData = this.#authenticatorData(bent.flags ?? USER_PRESENT | USER_VERIFIED, bent);
    const clientData = this.#clientData('webauthn.get', options, bent);
    return this.#credential({
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authData.toString('base64url'),
      signature: this.sign(Buffer.concat([authData, sha256(clientData)]), key).toString('base64url'),
      userHandle: bent.userHandle === undefined ? this.userHandle : bent.userHandle,
    });
  }

  #clientData(type: string, options: OfferedOptions, bent: Bent): Buffer {
    const { challenge = options.challenge, origin = this.#origin } = bent;
    return Buffer.from(
      JSON.stringify({ type: bent.type ?? type, challenge, origin, crossOrigin: false, ...bent.clientData }),
    );
  }

  #authenticatorData(flags: number, bent: Bent, attested = Buffer.alloc(0)): Buffer {
    const rpId = bent.rpId ?? new URL(this.#origin).hostname;
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(bent.counter ?? this.counter);
    const { extensions = Buffer.alloc(0) } = bent;
    return Buffer.concat([sha256(rpId), Buffer.of(flags), counter, attested, extensions]);
  }

  #credential<R extends Record<string, string | null>>(response: R): PasskeyResponse & { response: R } {
    const id = this.id.toString('base64url');
    return { id, rawId: id, type: 'public-key', response, clientExtensionResults: {} };
  }
}

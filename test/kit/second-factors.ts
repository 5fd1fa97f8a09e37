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
const VERIFIED = 0x04;
const ATTESTED = 0x40;

/** The part that a test changes to see it refused. */
export interface Bent {
  origin?: string;
  rpId?: string;
  flags?: number;
  type?: string;
  challenge?: string;
  counter?: number;
}

/** A platform authenticator with one discoverable credential (WebAuthn §6), ES256, without attestation. */
export class PasskeyDevice {
  readonly id: Buffer = randomBytes(32);
  #privateKey: KeyObject;
  #publicKey: KeyObject;
  #origin: string;
  counter = 1;

  constructor(origin: string) {
    this.#origin = origin;
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#privateKey = privateKey;
    this.#publicKey = publicKey;
  }

  /** RFC 9052 §7: kty EC2, alg ES256, crv P-256, x, y. */
  #cose(): Buffer {
    const { x = '', y = '' } = this.#publicKey.export({ format: 'jwk' });
    const bytes = (label: string, value: string) => [
      Buffer.from(`${label}5820`, 'hex'),
      Buffer.from(value, 'base64url'),
    ];
    return Buffer.concat([Buffer.from('a5010203262001', 'hex'), ...bytes('21', x), ...bytes('22', y)]);
  }

  #clientData(type: string, options: { challenge: string }, bent: Bent): Buffer {
    const { challenge = options.challenge, origin = this.#origin } = bent;
    return Buffer.from(JSON.stringify({ type: bent.type ?? type, challenge, origin, crossOrigin: false }));
  }

  #data(flags: number, bent: Bent, rest = Buffer.alloc(0)): Buffer {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(bent.counter ?? this.counter);
    return Buffer.concat([sha256(bent.rpId ?? 'localhost'), Buffer.of(bent.flags ?? flags), counter, rest]);
  }

  create(options: { challenge: string }, bent: Bent = {}): object {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.id.length);
    const attested = Buffer.concat([Buffer.alloc(16), length, this.id, this.#cose()]);
    const data = this.#data(
      (bent.flags ?? USER_PRESENT | VERIFIED) | ATTESTED,
      { ...bent, flags: undefined as never },
      attested,
    );
    const text = (value: string) => Buffer.concat([Buffer.of(0x60 + value.length), Buffer.from(value)]);
    const attestation = Buffer.concat([
      ...[Buffer.of(0xa3), text('fmt'), text('none'), text('attStmt'), Buffer.of(0xa0), text('authData')],
      ...[Buffer.of(0x58, data.length), data],
    ]);
    return this.#credential({
      clientDataJSON: this.#clientData('webauthn.create', options, bent).toString('base64url'),
      attestationObject: attestation.toString('base64url'),
    });
  }

  get(options: { challenge: string }, bent: Bent = {}, key = this.#privateKey): object {
    this.counter += 1;
    const data = this.#data(USER_PRESENT | VERIFIED, bent);
    const client = this.#clientData('webauthn.get', options, bent);
    return this.#credential({
      clientDataJSON: client.toString('base64url'),
      authenticatorData: data.toString('base64url'),
      signature: sign('sha256', Buffer.concat([data, sha256(client)]), key).toString('base64url'),
    });
  }

  #credential(response: object): object {
    const id = this.id.toString('base64url');
    return { id, rawId: id, type: 'public-key', response, clientExtensionResults: {} };
  }
}

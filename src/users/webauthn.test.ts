/**
 * Verification of passkeys, compared with @simplewebauthn/server: responses of a software authenticator, changed in every part. Postrider
 * must accept every correct response, and nothing that the library rejects, except lengths in a longer form than necessary. It rejects
 * more; `rejects: 'ours'` marks those responses.
 */
import assert from 'node:assert/strict';
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { verifyAuthenticationResponse, verifyRegistrationResponse } from '@simplewebauthn/server';
import fc from 'fast-check';
import {
  type AssertionResponse,
  attestationObject,
  type Bent,
  type CborInput,
  cbor,
  Encoded,
  type PasskeyAlgorithm,
  PasskeyDevice,
  type RegistrationResponse,
} from '../../test/kit/second-factors.ts';
import { type Expected, type StoredCredential, verifyAssertion, verifyRegistration } from './webauthn.ts';

const ORIGIN = 'https://mail.example.com';
const RP_ID = 'mail.example.com';
const CHALLENGE = 'eW91IGhhdmUgYmVlbiBjaGFsbGVuZ2Vk';
const OPTIONS = { challenge: CHALLENGE, user: { id: Buffer.from('usr_1').toString('base64url') } };
const ALGORITHMS: PasskeyAlgorithm[] = ['ES256', 'EdDSA', 'RS256'];

const expected: Expected = { isChallenge: (challenge) => challenge === CHALLENGE, origins: [ORIGIN], rpId: RP_ID };
const expectedByLibrary = {
  expectedChallenge: CHALLENGE,
  expectedOrigin: [ORIGIN],
  expectedRPID: RP_ID,
  requireUserVerification: true,
};

interface Verdicts {
  ours: boolean;
  library: boolean;
  message: string;
}

async function judgeRegistration(response: RegistrationResponse): Promise<Verdicts> {
  const ours = verifyRegistration(response, expected);
  const library = await verifyRegistrationResponse({ response: response as never, ...expectedByLibrary }).then(
    ({ verified }) => verified,
    () => false,
  );
  return { ours: ours.ok, library, message: ours.ok ? '' : ours.failure.message };
}

async function judgeAssertion(response: AssertionResponse, stored: StoredCredential): Promise<Verdicts> {
  const ours = verifyAssertion(response, { ...stored, userId: 'usr_1' }, expected);
  const library = await verifyAuthenticationResponse({
    response: response as never,
    credential: { ...stored, publicKey: Uint8Array.from(stored.publicKey) },
    ...expectedByLibrary,
  }).then(
    ({ verified }) => verified,
    () => false,
  );
  return { ours: ours.ok, library, message: ours.ok ? '' : ours.failure.message };
}

function registered(device: PasskeyDevice): StoredCredential {
  const result = verifyRegistration(device.create(OPTIONS), expected);
  assert.ok(result.ok);
  return result.value;
}

test('both verifiers accept correct responses and store the same bytes', async () => {
  for (const algorithm of ALGORITHMS) {
    const device = new PasskeyDevice(ORIGIN, algorithm);
    const response = device.create(OPTIONS);
    const ours = verifyRegistration(response, expected);
    assert.ok(ours.ok, algorithm);
    const library = await verifyRegistrationResponse({ response: response as never, ...expectedByLibrary });
    const { id, publicKey, counter } = library.registrationInfo!.credential;
    assert.deepEqual(ours.value, { id, publicKey, counter, challenge: CHALLENGE });
    const assertion = device.get(OPTIONS);
    assert.deepEqual(await judgeAssertion(assertion, ours.value), { ours: true, library: true, message: '' });
    const verified = verifyAssertion(assertion, { ...ours.value, userId: 'usr_1' }, expected);
    assert.deepEqual(verified, { ok: true, value: { counter: device.counter, challenge: CHALLENGE } });
  }
});

test('credentials stored by @simplewebauthn/server 13.2.2 still verify', () => {
  interface Saved {
    algorithm: PasskeyAlgorithm;
    id: string;
    publicKey: string;
    counter: number;
    privateKey: string;
  }
  const file = new URL('../../test/fixtures/passkeys.json', import.meta.url);
  const saved = JSON.parse(readFileSync(file, 'utf8')) as Saved[];
  assert.deepEqual(
    saved.map(({ algorithm }) => algorithm),
    ALGORITHMS,
  );
  for (const { algorithm, id, publicKey, counter, privateKey: der } of saved) {
    const privateKey = createPrivateKey({ key: Buffer.from(der, 'base64url'), format: 'der', type: 'pkcs8' });
    const device = new PasskeyDevice(ORIGIN, algorithm, { privateKey, publicKey: createPublicKey(privateKey) });
    const stored = { id, publicKey: Buffer.from(publicKey, 'base64url'), counter, userId: 'usr_1' };
    const response = { ...device.get(OPTIONS), id, rawId: id };
    assert.equal(verifyAssertion(response, stored, expected).ok, true, algorithm);
    const other = new PasskeyDevice(ORIGIN, algorithm);
    assert.equal(verifyAssertion({ ...other.get(OPTIONS), id, rawId: id }, stored, expected).ok, false, 'control');
  }
});

const [UP, UV, BE, BS, ED] = [0x01, 0x04, 0x08, 0x10, 0x80];
const withCose = (device: PasskeyDevice, changes: [number, CborInput | undefined][]): Map<number, CborInput> => {
  const cose = new Map(device.cose);
  for (const [label, value] of changes) {
    if (value === undefined) cose.delete(label);
    else cose.set(label, value);
  }
  return cose;
};
const encoded = (hex: string, ...rest: Buffer[]) => new Encoded(Buffer.concat([Buffer.from(hex, 'hex'), ...rest]));

/** Which verifier rejects the response. */
type Rejects = 'both' | 'ours' | 'library' | 'none';

/** Whether ours and the library's accept. */
const VERDICTS: Record<Rejects, [boolean, boolean]> = {
  both: [false, false],
  ours: [false, true],
  library: [true, false],
  none: [true, true],
};

interface Tampered {
  name: string;
  rejects: Rejects;
  message?: RegExp;
  bent?: Bent | ((device: PasskeyDevice) => Bent);
  /** Changes the response after it was created. */
  edit?: (response: { id: string; rawId: string; response: Record<string, string | null> }) => void;
  algorithm?: PasskeyAlgorithm;
}

const appended = (field: string, text: string) => ({
  edit: ({ response }: { response: Record<string, string | null> }) => {
    response[field] += text;
  },
});

/** Changes of client data and authenticator data, which registrations and assertions have in common. */
const COMMON: Tampered[] = [
  { name: 'control', rejects: 'none' },
  { name: 'another challenge', rejects: 'both', bent: { challenge: 'AAAA' }, message: /challenge is unknown/ },
  { name: 'an empty challenge', rejects: 'both', bent: { challenge: '' } },
  { name: 'a challenge that is not a string', rejects: 'both', bent: { clientData: { challenge: [CHALLENGE] } } },
  {
    name: 'another origin',
    rejects: 'both',
    bent: { origin: 'https://evil.example', rpId: RP_ID },
    message: /must be at https:\/\/mail/,
  },
  { name: 'an origin that is a list', rejects: 'both', bent: { clientData: { origin: [ORIGIN] } } },
  { name: 'http instead of https', rejects: 'both', bent: { origin: `http://${RP_ID}` } },
  { name: 'another port', rejects: 'both', bent: { origin: `${ORIGIN}:8443` } },
  { name: 'a subdomain', rejects: 'both', bent: { origin: `https://x.${RP_ID}`, rpId: RP_ID } },
  { name: 'a frame of another site', rejects: 'ours', bent: { clientData: { crossOrigin: true } }, message: /frame/ },
  { name: 'a top origin', rejects: 'ours', bent: { clientData: { topOrigin: 'https://evil.example' } } },
  { name: 'a member that is not known', rejects: 'none', bent: { clientData: { other_keys_can_be_added_here: 'x' } } },
  { name: 'another type', rejects: 'both', bent: { type: 'payment.get' }, message: /type in clientDataJSON/ },
  { name: 'client data that is not JSON', rejects: 'both', edit: ({ response }) => (response.clientDataJSON = 'AAAA') },
  { name: 'client data that is null', rejects: 'both', edit: ({ response }) => (response.clientDataJSON = 'bnVsbA') },
  {
    name: 'client data that is not base64url',
    rejects: 'ours',
    ...appended('clientDataJSON', '*'),
    message: /base64url/,
  },
  { name: 'another relying party', rejects: 'both', bent: { rpId: 'example.com' }, message: /another host/ },
  { name: 'no user presence', rejects: 'both', bent: { flags: UV }, message: /user presence/ },
  { name: 'no user verification', rejects: 'both', bent: { flags: UP }, message: /did not verify the user/ },
  { name: 'backed up and eligible', rejects: 'none', bent: { flags: UP | UV | BE | BS } },
  { name: 'eligible for backup', rejects: 'none', bent: { flags: UP | UV | BE } },
  { name: 'backed up, not eligible', rejects: 'both', bent: { flags: UP | UV | BS }, message: /not eligible/ },
  { name: 'extensions', rejects: 'none', bent: { flags: UP | UV | ED, extensions: cbor(new Map([['a', true]])) } },
  {
    name: 'extensions without their flag',
    rejects: 'both',
    bent: { extensions: cbor(new Map()) },
    message: /trailing/,
  },
  { name: 'the flag without extensions', rejects: 'both', bent: { flags: UP | UV | ED } },
  {
    name: 'extensions that are not a map',
    rejects: 'ours',
    bent: { flags: UP | UV | ED, extensions: cbor(['a']) },
    message: /map is missing/,
  },
  { name: 'trailing bytes', rejects: 'both', bent: { extensions: Buffer.of(0) } },
  {
    name: 'extensions of an indefinite length',
    rejects: 'both',
    bent: { flags: UP | UV | ED, extensions: Buffer.from('bf6161f5ff', 'hex') },
    message: /indefinite/,
  },
  { name: 'another rawId', rejects: 'both', edit: (response) => (response.rawId = 'AAAA'), message: /rawId/ },
  { name: 'another id', rejects: 'ours', edit: (response) => (response.id = response.rawId = 'AAAA'), message: /id/ },
];

test('a changed registration is rejected', async (t) => {
  const none = (authData: Buffer) => attestationObject('none', new Map(), authData);
  const packed = (device: PasskeyDevice, alg: number, tamper = (signed: Buffer) => signed): Bent => ({
    attestation: (authData, hash) =>
      attestationObject(
        'packed',
        new Map<string, CborInput>([
          ['alg', alg],
          ['sig', device.sign(tamper(Buffer.concat([authData, hash])))],
        ]),
        authData,
      ),
  });
  const elsewhere = generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey.export({ format: 'jwk' });
  const small = generateKeyPairSync('rsa', { modulusLength: 1_024 }).publicKey.export({ format: 'jwk' });
  const bytes = (text: string | undefined) => Buffer.from(text!, 'base64url');
  const cases: Tampered[] = [
    ...COMMON,
    { name: 'an assertion', rejects: 'both', bent: { type: 'webauthn.get' } },
    { name: 'self attestation', rejects: 'none', bent: (device) => packed(device, -7) },
    {
      name: 'self attestation of other data',
      rejects: 'both',
      bent: (device) => packed(device, -7, (signed) => Buffer.concat([signed, Buffer.of(0)])),
      message: /signature is not valid/,
    },
    { name: 'self attestation with another algorithm', rejects: 'ours', bent: (device) => packed(device, -257) },
    {
      name: 'self attestation without a signature',
      rejects: 'both',
      bent: { attestation: (data) => attestationObject('packed', new Map([['alg', -7]]), data) },
    },
    {
      name: 'an attestation with a certificate',
      rejects: 'both',
      bent: { attestation: (data) => attestationObject('packed', new Map([['x5c', [Buffer.alloc(9)]]]), data) },
    },
    {
      name: 'an unknown attestation',
      rejects: 'both',
      bent: { attestation: (data) => attestationObject('other', new Map(), data) },
    },
    {
      name: 'a statement in the attestation "none"',
      rejects: 'both',
      bent: { attestation: (data) => attestationObject('none', new Map([['sig', Buffer.alloc(8)]]), data) },
    },
    {
      name: 'no statement',
      rejects: 'both',
      bent: {
        attestation: (data) =>
          new Map<string, CborInput>([
            ['fmt', 'none'],
            ['authData', data],
          ]),
      },
    },
    { name: 'no authenticator data', rejects: 'both', bent: { attestation: () => new Map([['fmt', 'none']]) } },
    {
      name: 'authenticator data that is text',
      rejects: 'both',
      bent: {
        attestation: () =>
          new Map<string, CborInput>([
            ['fmt', 'none'],
            ['attStmt', new Map()],
            ['authData', 'x'.repeat(200)],
          ]),
      },
    },
    {
      name: 'authenticator data of 36 bytes',
      rejects: 'both',
      bent: { attestation: (data) => none(data.subarray(0, 36)) },
      message: /truncated/,
    },
    {
      name: 'no attested credential',
      rejects: 'both',
      bent: {
        attestation: (data) => {
          const head = Buffer.from(data.subarray(0, 37));
          head[32]! &= ~0x40;
          return none(head);
        },
      },
      message: /no credential/,
    },
    { name: 'an array', rejects: 'both', bent: { attestation: (data) => [none(data)] } },
    {
      name: 'trailing bytes of the object',
      rejects: 'ours',
      bent: { attestation: (data) => encoded('', cbor(none(data)), Buffer.of(0)) },
    },
    {
      name: 'an indefinite length',
      rejects: 'both',
      bent: { attestation: (data) => encoded('bf', cbor(none(data)).subarray(1), Buffer.of(0xff)) },
    },
    {
      name: 'a repeated key',
      rejects: 'both',
      bent: { attestation: (data) => encoded('a4', cbor(none(data)).subarray(1), cbor('fmt'), cbor('none')) },
      message: /repeated/,
    },
    {
      name: 'a tag',
      rejects: 'both',
      bent: { attestation: (data) => encoded('c0', cbor(none(data))) },
    },
    {
      name: 'a length in a longer form in the key',
      rejects: 'library',
      bent: (device) => ({ cose: encoded('b805', cbor(device.cose).subarray(1)) }),
    },
    {
      name: 'a length in a longer form',
      rejects: 'none',
      bent: {
        attestation: (data) =>
          encoded('a363666d74646e6f6e656761747453746d74a06861757468446174615900', Buffer.of(data.length), data),
      },
    },
    { name: 'more keys than bytes', rejects: 'both', bent: { attestation: () => encoded('bb001fffffffffffff') } },
    {
      name: 'deep nesting',
      rejects: 'both',
      bent: { attestation: () => encoded('81'.repeat(9_000)) },
      message: /nesting/,
    },
    {
      name: 'the key type of an Ed25519 key',
      rejects: 'ours',
      bent: (device) => ({ cose: withCose(device, [[1, 1]]) }),
    },
    { name: 'no key type', rejects: 'ours', bent: (device) => ({ cose: withCose(device, [[1, undefined]]) }) },
    { name: 'no algorithm', rejects: 'both', bent: (device) => ({ cose: withCose(device, [[3, undefined]]) }) },
    { name: 'an unknown algorithm', rejects: 'both', bent: (device) => ({ cose: withCose(device, [[3, -999]]) }) },
    { name: 'RSA with SHA-1', rejects: 'ours', bent: (device) => ({ cose: withCose(device, [[3, -65_535]]) }) },
    { name: 'the algorithm of RSA', rejects: 'ours', bent: (device) => ({ cose: withCose(device, [[3, -257]]) }) },
    {
      name: 'an algorithm that is text',
      rejects: 'both',
      bent: (device) => ({ cose: withCose(device, [[3, 'ES256']]) }),
    },
    {
      name: 'ES256 with P-384',
      rejects: 'ours',
      bent: (device) => ({
        cose: withCose(device, [
          [-1, 2],
          [-2, bytes(elsewhere.x)],
          [-3, bytes(elsewhere.y)],
        ]),
      }),
    },
    { name: 'no curve', rejects: 'ours', bent: (device) => ({ cose: withCose(device, [[-1, undefined]]) }) },
    { name: 'a compressed point', rejects: 'ours', bent: (device) => ({ cose: withCose(device, [[-3, true]]) }) },
    {
      name: 'a short coordinate',
      rejects: 'ours',
      bent: (device) => ({ cose: withCose(device, [[-2, Buffer.alloc(31)]]) }),
    },
    {
      name: 'a point that is not on the curve',
      rejects: 'ours',
      bent: (device) => ({
        cose: withCose(device, [
          [-2, Buffer.alloc(32, 1)],
          [-3, Buffer.alloc(32, 1)],
        ]),
      }),
      message: /public key is not valid/,
    },
    {
      name: 'the point at infinity',
      rejects: 'ours',
      bent: (device) => ({
        cose: withCose(device, [
          [-2, Buffer.alloc(32)],
          [-3, Buffer.alloc(32)],
        ]),
      }),
    },
    {
      name: 'a small RSA key',
      algorithm: 'RS256',
      rejects: 'ours',
      bent: (device) => ({ cose: withCose(device, [[-1, bytes(small.n)]]) }),
    },
    {
      name: 'a huge RSA key',
      algorithm: 'RS256',
      rejects: 'ours',
      bent: (device) => ({ cose: withCose(device, [[-1, Buffer.alloc(2_000, 0xff)]]) }),
    },
    {
      name: 'an EdDSA key of 33 bytes',
      algorithm: 'EdDSA',
      rejects: 'ours',
      bent: (device) => ({ cose: withCose(device, [[-2, Buffer.alloc(33)]]) }),
    },
    {
      name: 'a repeated label',
      rejects: 'both',
      bent: (device) => ({ cose: encoded('a6', cbor(device.cose).subarray(1), Buffer.from('0302', 'hex')) }),
    },
    {
      name: 'a key of an indefinite length',
      rejects: 'both',
      bent: (device) => ({ cose: encoded('bf', cbor(device.cose).subarray(1), Buffer.of(0xff)) }),
    },
    {
      name: 'a truncated key',
      rejects: 'ours',
      bent: (device) => ({ cose: encoded('', cbor(device.cose).subarray(0, -1)) }),
    },
    { name: 'a key that is an integer', rejects: 'both', bent: { cose: 7 } },
    { name: 'an object that is not base64url', rejects: 'ours', ...appended('attestationObject', '*') },
  ];
  for (const { name, rejects, message, bent = {}, edit, algorithm } of cases) {
    await t.test(name, async () => {
      const device = new PasskeyDevice(ORIGIN, algorithm);
      const response = device.create(OPTIONS, typeof bent === 'function' ? bent(device) : bent);
      edit?.(response);
      const verdicts = await judgeRegistration(response);
      assert.deepEqual([verdicts.ours, verdicts.library], VERDICTS[rejects], verdicts.message);
      if (!verdicts.ours) assert.match(verdicts.message, message ?? /^credential was not accepted: /);
    });
  }
});

test('a changed assertion is rejected', async (t) => {
  const forged = (response: Record<string, string | null>, key: Parameters<typeof sign>[2]): void => {
    const clientData = Buffer.from(response.clientDataJSON!, 'base64url');
    const hash = createHash('sha256').update(clientData).digest();
    const signed = Buffer.concat([Buffer.from(response.authenticatorData!, 'base64url'), hash]);
    response.signature = sign('sha256', signed, key).toString('base64url');
  };
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const signatureOf = (response: Record<string, string | null>) => Buffer.from(response.signature!, 'base64url');
  const replaced = (signature: (bytes: Buffer) => Buffer): Pick<Tampered, 'edit'> => ({
    edit: ({ response }) => (response.signature = signature(signatureOf(response)).toString('base64url')),
  });
  const cases: (Tampered & { counter?: number })[] = [
    ...COMMON,
    { name: 'a registration', rejects: 'both', bent: { type: 'webauthn.create' } },
    { name: 'the counter of the last login', rejects: 'both', counter: 7, bent: { counter: 7 }, message: /counter/ },
    { name: 'a lower counter', rejects: 'both', counter: 7, bent: { counter: 6 } },
    { name: 'a counter that became 0', rejects: 'both', counter: 7, bent: { counter: 0 } },
    { name: 'a counter that starts', rejects: 'none', counter: 0, bent: { counter: 1 } },
    { name: 'an authenticator that does not count', rejects: 'none', counter: 0, bent: { counter: 0 } },
    { name: 'the largest counter', rejects: 'none', counter: 7, bent: { counter: 0xffff_ffff } },
    { name: 'no user handle', rejects: 'none', bent: { userHandle: null } },
    { name: 'the user handle of another', rejects: 'ours', bent: { userHandle: 'AAAA' }, message: /userHandle/ },
    { name: 'the key of another', rejects: 'both', edit: ({ response }) => forged(response, other) },
    {
      name: 'other authenticator data than signed',
      rejects: 'both',
      edit: ({ response }) => {
        const data = Buffer.from(response.authenticatorData!, 'base64url');
        data[36]! ^= 0x80;
        response.authenticatorData = data.toString('base64url');
      },
      message: /signature/,
    },
    {
      name: 'other client data than signed',
      rejects: 'both',
      edit: ({ response }) => {
        response.clientDataJSON = Buffer.from(`${Buffer.from(response.clientDataJSON!, 'base64url')} `).toString(
          'base64url',
        );
      },
      message: /signature/,
    },
    { name: 'truncated data', rejects: 'both', edit: ({ response }) => (response.authenticatorData = 'AAAA') },
    { name: 'an empty signature', rejects: 'both', ...replaced(() => Buffer.alloc(0)) },
    { name: 'a signature of zeros', rejects: 'both', ...replaced(() => Buffer.from('3006020100020100', 'hex')) },
    { name: 'a signature that is not DER', rejects: 'both', ...replaced((bytes) => bytes.subarray(4)) },
    {
      name: 'bytes after the signature',
      rejects: 'ours',
      ...replaced((bytes) => Buffer.concat([bytes, Buffer.of(0)])),
    },
    { name: 'a truncated signature', rejects: 'both', ...replaced((bytes) => bytes.subarray(0, -1)) },
    {
      name: 'a signature in the form of IEEE P1363',
      rejects: 'both',
      ...replaced(() => Buffer.alloc(64, 1)),
    },
    { name: 'a signature that is not base64url', rejects: 'both', ...appended('signature', '*') },
    {
      name: 'an EdDSA signature of 63 bytes',
      algorithm: 'EdDSA',
      rejects: 'both',
      ...replaced((bytes) => bytes.subarray(1)),
    },
    {
      name: 'an RSA signature of 255 bytes',
      algorithm: 'RS256',
      rejects: 'both',
      ...replaced((bytes) => bytes.subarray(1)),
    },
    {
      name: 'an RSA signature of 1',
      algorithm: 'RS256',
      rejects: 'both',
      ...replaced(() => Buffer.from('01'.padStart(512, '0'), 'hex')),
    },
  ];
  for (const { name, rejects, message, bent = {}, edit, algorithm, counter } of cases) {
    await t.test(name, async () => {
      const device = new PasskeyDevice(ORIGIN, algorithm);
      const stored = { ...registered(device), ...(counter !== undefined && { counter }) };
      const response = device.get(OPTIONS, typeof bent === 'function' ? bent(device) : bent);
      edit?.(response);
      const verdicts = await judgeAssertion(response, stored);
      assert.deepEqual([verdicts.ours, verdicts.library], VERDICTS[rejects], verdicts.message);
      if (!verdicts.ours) assert.match(verdicts.message, message ?? /^credential was not accepted: /);
    });
  }
});

const mutation = fc.record({
  at: fc.nat(),
  kind: fc.constantFrom('replace', 'flip', 'remove', 'insert', 'cut'),
  byte: fc.nat(255),
});

function mutated(text: string, { at, kind, byte }: { at: number; kind: string; byte: number }): string {
  const bytes = Buffer.from(text, 'base64url');
  const offset = at % bytes.length;
  const [head, tail] = [bytes.subarray(0, offset), bytes.subarray(offset)];
  const result = {
    replace: () => Buffer.concat([head, Buffer.of(byte), tail.subarray(1)]),
    flip: () => Buffer.concat([head, Buffer.of(tail[0]! ^ (1 << (byte & 7))), tail.subarray(1)]),
    remove: () => Buffer.concat([head, tail.subarray(1)]),
    insert: () => Buffer.concat([head, Buffer.of(byte), tail]),
    cut: () => head,
  }[kind]!();
  return result.toString('base64url');
}

test('mutated responses: nothing that the library rejects is accepted', async () => {
  const devices = ALGORITHMS.map((algorithm) => new PasskeyDevice(ORIGIN, algorithm));
  const stored = devices.map(registered);
  let accepted = 0;
  const judge = async ({ ours, library }: Verdicts): Promise<void> => {
    if (ours) accepted += 1;
    assert.ok(library || !ours);
  };
  await fc.assert(
    fc.asyncProperty(
      fc.nat(2),
      fc.constantFrom('clientDataJSON', 'attestationObject'),
      mutation,
      async (n, field, change) => {
        const response = devices[n]!.create(OPTIONS);
        const value = mutated(response.response[field as 'clientDataJSON'], change);
        await judge(await judgeRegistration({ ...response, response: { ...response.response, [field]: value } }));
      },
    ),
    { numRuns: 600 },
  );
  assert.notEqual(accepted, 0, 'control: without attestation, some bytes are not significant');
  accepted = 0;
  const fields = ['clientDataJSON', 'authenticatorData', 'signature'];
  await fc.assert(
    fc.asyncProperty(fc.nat(2), fc.constantFrom(...fields), mutation, async (n, field, change) => {
      const response = devices[n]!.get(OPTIONS);
      const before = response.response[field as 'signature'];
      const value = mutated(before, change);
      if (value === before) return;
      await judge(
        await judgeAssertion({ ...response, response: { ...response.response, [field]: value } }, stored[n]!),
      );
    }),
    { numRuns: 600 },
  );
  assert.equal(accepted, 0, 'every byte of an assertion is significant');
});

/** Codes of an authenticator app, against the vectors of the RFCs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  base32,
  hotp,
  newRecoveryCodes,
  newTotpSecret,
  otpauthUrl,
  recoveryCodeHash,
  totpStep,
  verifyTotp,
} from './totp.ts';

const SECRET = Buffer.from('12345678901234567890');

test('matches RFC 4226, appendix D, and RFC 6238, appendix B', () => {
  const codes = ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489'];
  assert.deepEqual(
    codes.map((_, counter) => hotp(SECRET, counter)),
    codes,
  );
  for (const [seconds, code] of [
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_234_567_890, '89005924'],
    [20_000_000_000, '65353130'],
  ] as const)
    assert.equal(hotp(SECRET, totpStep(seconds * 1_000), 8), code);
});

test('matches RFC 4648, section 10', () => {
  for (const [text, encoded] of [
    ['', ''],
    ['f', 'MY'],
    ['fo', 'MZXQ'],
    ['foo', 'MZXW6'],
    ['foob', 'MZXW6YQ'],
    ['fooba', 'MZXW6YTB'],
    ['foobar', 'MZXW6YTBOI'],
  ] as const)
    assert.equal(base32(Buffer.from(text)), encoded);
  assert.equal(base32(newTotpSecret()).length, 32);
  assert.equal(
    otpauthUrl(Buffer.from('foobar'), 'ann+1@example.com'),
    'otpauth://totp/Postrider:ann%2B1%40example.com?secret=MZXW6YTBOI&issuer=Postrider',
  );
});

test('only the previous, current, and next step are accepted', () => {
  const nowMs = 1_795_167_840_000;
  const step = totpStep(nowMs);
  for (const [by, expected] of [
    [-2, undefined],
    [-1, step - 1],
    [0, step],
    [1, step + 1],
    [2, undefined],
  ] as const)
    assert.equal(verifyTotp(SECRET, hotp(SECRET, step + by), nowMs), expected);
  for (const wrong of ['', '12345', '1234567', `${hotp(SECRET, step)}0`, 'abcdef', '     1'])
    assert.equal(verifyTotp(SECRET, wrong, nowMs), undefined, wrong);
});

test('recovery codes are unique and stored under a key', () => {
  const codes = newRecoveryCodes();
  assert.equal(new Set(codes).size, 10);
  for (const code of codes) assert.match(code, /^[a-z2-7]{5}-[a-z2-7]{5}$/);
  const [code = ''] = codes;
  const hashOf = (text: string, key = Buffer.alloc(32)): string => recoveryCodeHash(key, text).toString('hex');
  assert.equal(hashOf(code.toUpperCase().replace('-', ' ')), hashOf(code));
  assert.notEqual(hashOf(code), hashOf(codes[1]!));
  assert.notEqual(hashOf(code), hashOf(code, Buffer.alloc(32, 1)));
});

/** Encrypted secrets are decrypted only with their key and context, and never after a bit has changed. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test from 'node:test';
import { open, seal } from './seal.ts';

const key = randomBytes(32);

test('encrypted values can be decrypted, and each encryption differs', () => {
  const first = seal(key, 'grüße', 'dkim:dom_1');
  assert.equal(open(key, first, 'dkim:dom_1').toString(), 'grüße');
  assert.notDeepEqual(first, seal(key, 'grüße', 'dkim:dom_1'));
  assert.equal(open(key, seal(key, new Uint8Array(), 'x'), 'x').length, 0);
});

test('another key, another context, and any changed byte are rejected', () => {
  const sealed = seal(key, 'secret', 'a');
  assert.throws(() => open(randomBytes(32), sealed, 'a'), /does not open/);
  assert.throws(() => open(key, sealed, 'b'), /does not open/);
  for (let i = 0; i < sealed.length; i += 1) {
    const altered = Buffer.from(sealed);
    altered[i] = altered[i]! ^ 1;
    assert.throws(() => open(key, altered, 'a'), /does not open|unknown form/);
  }
  assert.throws(() => open(key, sealed.subarray(0, 20), 'a'), /unknown form/);
});

/** Tokens in Authorization headers, and headers that are made to be slow to parse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fewestOf } from '../../test/kit/running-time.ts';
import { bearerToken } from './bearer.ts';
import { MAX_HEADER_BYTES } from './protocol.ts';

test('the token follows the scheme, in any case and after any number of spaces', () => {
  for (const header of ['Bearer abc', 'bearer abc', 'BEARER   abc', 'Bearer abc  '])
    assert.equal(bearerToken(header), 'abc');
  assert.equal(bearerToken('Bearer a b'), 'a b', 'not a valid key');
});

test('other headers have no token', () => {
  for (const header of [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer   ',
    'Bearerabc',
    'Bearer\tabc',
    'Basic abc',
    'abc',
  ])
    assert.equal(bearerToken(header), undefined, JSON.stringify(header));
});

test('parsing a long header takes linear time', async () => {
  const durationOf = (work: () => unknown): number => {
    const startedMs = performance.now();
    for (let i = 0; i < 20; i += 1) work();
    return performance.now() - startedMs;
  };
  const spaces = ' '.repeat(MAX_HEADER_BYTES);
  for (const header of [`Bearer x${spaces}y`, `Bearer${spaces}x y`, `Bearer ${'x '.repeat(MAX_HEADER_BYTES / 2)}`]) {
    const passes = await fewestOf(
      50,
      async () => durationOf(() => bearerToken(header)) / durationOf(() => JSON.stringify(header)),
    );
    assert.ok(passes < 50, `${passes} times the duration of one pass`);
  }
});

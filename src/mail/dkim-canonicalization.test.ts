import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { BodyHash } from './dkim-canonicalization.ts';

/** Literal implementations of RFC 6376 §3.4.3 and §3.4.4. */
const simple = (body: string): string => `${body.replace(/(?:\r\n)*$/, '')}\r\n`;
function canonical(body: string): string {
  const lines = body.split('\r\n').map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''));
  while (lines.length > 0 && lines[lines.length - 1] === '') lines.pop();
  return lines.map((line) => `${line}\r\n`).join('');
}

const sha256 = (text: string) => createHash('sha256').update(text, 'latin1').digest('base64');

function hashOf(body: string, cuts: readonly number[] = [], hash = new BodyHash('relaxed')): string {
  const bytes = Buffer.from(body, 'latin1');
  let start = 0;
  for (const cut of [...cuts.map((n) => n % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
    // A copy that is overwritten afterwards, because the hash must not keep a reference to its input.
    const chunk = Buffer.from(bytes.subarray(start, cut));
    hash.update(chunk);
    chunk.fill(0x58);
    start = cut;
  }
  return hash.digest();
}

test('an empty body has the hash of the empty string in every form', () => {
  for (const body of ['', '\r\n', '\r\n\r\n\r\n', ' ', ' \t\r\n \r\n', '\t']) {
    assert.equal(hashOf(body), '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=', JSON.stringify(body));
  }
});

test('the example of RFC 6376 §3.4.5 is canonicalized', () => {
  assert.equal(hashOf(' C \r\nD \t E\r\n\r\n\r\n'), sha256(' C\r\nD E\r\n'));
});

test('any body in any chunks hashes like the literal RFC algorithm', () => {
  const piece = fc.constantFrom('\r\n', '\r\n', ' ', '\t', '\r', '\n', 'a', 'word', '\xa0', '\xff', '\0', '.');
  const body = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''));
  const cuts = fc.array(fc.nat(200), { maxLength: 6 });
  fc.assert(
    fc.property(body, cuts, fc.nat(60), (text, at, limit) => {
      assert.equal(hashOf(text, at), sha256(canonical(text)));
      assert.equal(hashOf(text, at, new BodyHash('simple')), sha256(simple(text)));
      for (const [form, whole] of [
        ['relaxed', canonical(text)],
        ['simple', simple(text)],
      ] as const) {
        const hash = new BodyHash(form, limit);
        assert.equal(hashOf(text, at, hash), sha256(whole.slice(0, limit)));
        assert.equal(hash.unhashedBytes(), Math.max(0, whole.length - limit));
      }
    }),
    { numRuns: 3000 },
  );
});

test('empty lines held back across chunks are written when text follows', () => {
  const lines = '\r\n'.repeat(5000);
  assert.equal(hashOf(`a${lines}b`, [700, 701, 5000, 9999]), sha256(`a${lines}b\r\n`));
  assert.equal(hashOf(`a${lines}`, [700, 701]), sha256('a\r\n'));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeText, isSevenBit, normalizeLineEnds, resetScratch } from './transfer-encoding.ts';

/** Decodes quoted-printable by its definition. */
function decoded(text: string): string {
  const bytes = text
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

const piece = fc.constantFrom(
  ' ',
  '\t',
  '\r\n',
  '=',
  'From ',
  'a',
  'é',
  '漢',
  '漢字かな交じり文'.repeat(40),
  'F',
  '\0',
  'x'.repeat(70),
  'y'.repeat(74),
  'z'.repeat(75),
  'word '.repeat(20),
  '0'.repeat(999),
);

test('every encoding preserves the text and follows its rules', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const text = pieces.join('');
      resetScratch();
      const { encoding, data } = encodeText(text);
      const body = typeof data === 'string' ? data : Buffer.from(data).toString('latin1');
      seen.add(encoding);
      if (encoding === 'base64') assert.equal(Buffer.from(body, 'base64').toString('utf8'), text);
      else assert.equal(encoding === '7bit' ? body : decoded(body), text);
      for (const line of body.split('\r\n')) {
        assert.ok(line.length <= (encoding === '7bit' ? 998 : 76), line);
        assert.doesNotMatch(line, /^From |[^\x01-\x7f]|\r|\n/);
        if (encoding === 'quoted-printable') assert.doesNotMatch(line, /[ \t]$|[^\x20-\x7e\t]/);
      }
    }),
    { numRuns: 3000 },
  );
  assert.deepEqual([...seen].sort(), ['7bit', 'base64', 'quoted-printable']);
});

test('bodies larger than the scratch buffer are encoded, two at a time', () => {
  resetScratch();
  const texts = ['plain words, then é = x\r\n'.repeat(20_000), 'some more of them: ü = y\r\n'.repeat(15_000)];
  const results = texts.map(encodeText);
  for (const [i, { encoding, data }] of results.entries()) {
    assert.equal(encoding, 'quoted-printable');
    assert.ok(decoded(Buffer.from(data as Uint8Array).toString('latin1')) === texts[i]);
  }
});

test('line endings are normalized, and 7-bit content is detected', () => {
  assert.equal(normalizeLineEnds('a\nb\rc\r\nd\n\r'), 'a\r\nb\r\nc\r\nd\r\n\r\n');
  for (const text of ['', 'a', 'a\r\nb\r\n', 'x'.repeat(998)])
    assert.ok(isSevenBit(Buffer.from(text)), text.slice(0, 9));
  for (const text of ['a\n', '\r', 'a\r\r\n', '\n\r\n', '\0', 'é', 'x'.repeat(999)])
    assert.ok(!isSevenBit(Buffer.from(text)));
});

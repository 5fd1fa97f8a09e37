import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createDotReader } from './mail-transfer.ts';

interface Taken {
  content: string;
  /** What follows the final dot; undefined if it has not arrived. */
  rest: string | undefined;
}

function take(pieces: string[]): Taken {
  let content = '';
  const reader = createDotReader((chunk) => {
    content += chunk.toString('latin1');
  });
  for (const [index, piece] of pieces.entries()) {
    const chunk = Buffer.from(piece, 'latin1');
    const end = reader.push(chunk, 0);
    if (end !== -1) return { content, rest: chunk.toString('latin1', end) + pieces.slice(index + 1).join('') };
  }
  return { content, rest: undefined };
}

/** The rule of RFC 5321, applied to the entire text: only CRLF ends a line. */
function reference(text: string): Taken {
  const end = text.startsWith('.\r\n') ? 0 : text.indexOf('\r\n.\r\n') + 2;
  if (end === 1) return { content: '', rest: undefined };
  const content = text
    .slice(0, end)
    .split('\r\n')
    .map((line) => (line.startsWith('.') ? line.slice(1) : line))
    .join('\r\n');
  return { content, rest: text.slice(end + 3) };
}

test('the end of data and stuffed dots are recognized', () => {
  assert.deepEqual(take(['.\r\nNOOP\r\n']), { content: '', rest: 'NOOP\r\n' });
  assert.deepEqual(take(['a\r\n..\r\n..b\r\n.\r\n']), { content: 'a\r\n.\r\n.b\r\n', rest: '' });
  assert.deepEqual(take(['a\r\n.b\r\n.\r\n']), { content: 'a\r\nb\r\n', rest: '' });
  assert.deepEqual(take(['a\r\n.\rb\r\n.\r\n']), { content: 'a\r\n\rb\r\n', rest: '' });
  assert.deepEqual(take(['a\r\n.\r\r\n.\r\n']), { content: 'a\r\n\r\r\n', rest: '' });
});

test('only CRLF.CRLF ends a message', () => {
  for (const end of [
    '\n.\n',
    '\n.\r\n',
    '\r\n.\n',
    '\r.\r',
    '\r.\r\n',
    '\r\n.\r',
    '\r\n\0.\r\n',
    '\r\n.\0\r\n',
    '\r\n.\r\r\n',
    '.\r\n',
    '\r\n .\r\n',
    '\r\n. \r\n',
  ]) {
    assert.equal(take([`a${end}b`]).rest, undefined, JSON.stringify(end));
  }
});

test('the message is the same for any chunks and matches the specification', () => {
  const piece = fc.constantFrom('\r', '\n', '.', '\r\n', '\r\n.', '\r\n.\r\n', 'a', '\0', 'bc', '..');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 14 }), fc.array(fc.nat(40), { maxLength: 8 }), (parts, cuts) => {
      const text = parts.join('');
      const at = [...new Set(cuts.map((cut) => Math.min(cut, text.length)))].sort((a, b) => a - b);
      const pieces = [0, ...at].map((from, index) => text.slice(from, at[index] ?? text.length));
      const cut = take(pieces);
      const ruled = reference(text);
      assert.equal(cut.rest, ruled.rest);
      if (ruled.rest !== undefined) assert.equal(cut.content, ruled.content);
    }),
    { numRuns: 20_000 },
  );
});

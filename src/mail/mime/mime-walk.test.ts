import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type MimeLimits, MimeWalk } from './mime-walk.ts';

function walkThrough(text: string, limits: MimeLimits = { depth: 10, parts: 10 }): MimeWalk {
  const walk = new MimeWalk(limits);
  walk.begin(0);
  let at = 0;
  for (const line of text.split('\r\n')) {
    const next = Math.min(text.length, at + line.length + 2);
    if (walk.wants(text, at)) walk.line(line, at, next);
    at = next;
  }
  walk.end(text.length);
  return walk;
}

/** Each entity as kind, type, depth, header and body. */
function parts(text: string): string[] {
  return walkThrough(text).entities.map((entity) => {
    let depth = 0;
    for (let parent = entity.parent; parent; parent = parent.parent) depth += 1;
    const body = text.slice(entity.bodyStart, entity.bodyEnd);
    return `${depth} ${entity.kind} ${entity.type} ${entity.kind === 'leaf' ? JSON.stringify(body) : ''}`.trim();
  });
}

test('a message without structure is one leaf', () => {
  assert.deepEqual(parts('A: b\r\n\r\n--x\r\nbody'), ['0 leaf text/plain "--x\\r\\nbody"']);
  assert.deepEqual(parts('A: b'), ['0 leaf text/plain ""']);
  assert.deepEqual(parts(''), ['0 leaf text/plain ""']);
});

test('the line break before a delimiter belongs to it, with preambles and epilogues', () => {
  const text =
    'Content-Type: multipart/mixed; boundary=b\r\n\r\npreamble\r\n--b\r\nContent-type:\r\n text/html\r\n\r\n1\r\n\r\n--b  \r\n\r\n--b\r\nX: y\r\n--b--\r\nepilogue\r\n--b\r\n';
  assert.deepEqual(parts(text), [
    '0 multipart multipart/mixed',
    '1 leaf text/html "1\\r\\n"',
    '1 leaf text/plain ""',
    '1 leaf text/plain ""',
  ]);
});

test('a delimiter of an outer multipart ends all inner parts', () => {
  const text =
    'Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n1\r\n--a\r\n\r\n2\r\n--b\r\nstill 2\r\n--a--';
  assert.deepEqual(parts(text), [
    '0 multipart multipart/mixed',
    '1 multipart multipart/mixed',
    '2 leaf text/plain "1"',
    '1 leaf text/plain "2\\r\\n--b\\r\\nstill 2"',
  ]);
});

test('nested messages are parsed unless they are encoded', () => {
  const inside = 'Content-Type: text/html\r\n\r\nx';
  assert.deepEqual(parts(`Content-Type: message/rfc822\r\n\r\n${inside}`), [
    '0 message message/rfc822',
    '1 leaf text/html "x"',
  ]);
  assert.deepEqual(parts(`Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n${inside}`), [
    `0 leaf message/rfc822 ${JSON.stringify(inside)}`,
  ]);
  assert.deepEqual(parts(`Content-Type: multipart/digest; boundary=d\r\n\r\n--d\r\n\r\n${inside}\r\n--d--\r\n`), [
    '0 multipart multipart/digest',
    '1 message message/rfc822',
    '2 leaf text/html "x"',
  ]);
});

test('a content type that is not well formed loses no body', () => {
  const typeOf = (field: string): string => {
    const { type, charset } = walkThrough(`Content-Type: ${field}\r\n\r\nx`).entities[0]!;
    return `${type} ${charset}`.trim();
  };
  for (const [field, expected] of [
    ['text/html charset=UTF-8', 'text/html UTF-8'],
    ['text/plain charset="utf-8"', 'text/plain utf-8'],
    ['text/plain, charset=utf-8', 'text/plain utf-8'],
    ['text / html ; charset=utf-8', 'text/html utf-8'],
    ['text', 'text/plain'],
    ['plain; charset=koi8-r', 'text/plain koi8-r'],
    ['text/plain/html', 'text/plain'],
    ['html charset=utf-8', 'text/plain utf-8'],
    ['"text/html"', 'text/plain'],
    ['charset=utf-8', 'text/plain utf-8'],
    ['application/pdf name="a.pdf"', 'application/pdf'],
  ] as const)
    assert.equal(typeOf(field), expected, field);
  const part = 'Content-Type: text/html charset=utf-8\r\n\r\n1';
  assert.deepEqual(parts(`Content-Type: multipart/alternative boundary="b"\r\n\r\n--b\r\n${part}\r\n--b--\r\n`), [
    '0 multipart multipart/alternative',
    '1 leaf text/html "1"',
  ]);
  assert.deepEqual(
    parts(`Content-Type: multipart/digest boundary=b\r\n\r\n--b\r\nContent-Type: text\r\n\r\n1\r\n--b--`),
    ['0 multipart multipart/digest', '1 leaf text/plain "1"'],
  );
});

test('a transfer encoding with a hyphen is the one without it', () => {
  const encodingOf = (field: string): string =>
    walkThrough(`Content-Transfer-Encoding: ${field}\r\n\r\nx`).entities[0]!.encoding;
  for (const [field, encoding] of [
    ['8-bit', '8bit'],
    [' 7-BIT (comment)', '7bit'],
    ['8 bit', '8bit'],
    ['quoted-printable; x=y', 'quoted-printable'],
    ['18-bit', '18-bit'],
  ] as const)
    assert.equal(encodingOf(field), encoding, field);
});

test('handles a boundary that ends like a closing delimiter, and a repeated boundary', () => {
  const dashes = 'Content-Type: multipart/mixed; boundary="x--"\r\n\r\n--x--\r\n\r\n1\r\n--x----\r\n--x--\r\n';
  assert.deepEqual(parts(dashes), ['0 multipart multipart/mixed', '1 leaf text/plain "1"']);
  const twice =
    'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n1\r\n--b--\r\n--b\r\n\r\n2\r\n--b--\r\n';
  assert.deepEqual(parts(twice), [
    '0 multipart multipart/mixed',
    '1 multipart multipart/mixed',
    '2 leaf text/plain "1"',
    '1 leaf text/plain "2"',
  ]);
});

test('stops at the limits of part count and nesting depth', () => {
  const nest = 'Content-Type: message/rfc822\r\n\r\n';
  assert.equal(walkThrough(nest.repeat(10)).exceeded, undefined);
  assert.equal(walkThrough(nest.repeat(11), { depth: 10, parts: 100 }).exceeded, 'depth');
  const many = (count: number) => `Content-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\r\n\r\n'.repeat(count)}`;
  assert.equal(walkThrough(many(10)).exceeded, undefined);
  assert.equal(walkThrough(many(11)).exceeded, 'parts');
});

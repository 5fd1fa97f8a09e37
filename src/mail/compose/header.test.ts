import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { parseAddress } from '../address.ts';
import { extraField } from './extra-field.ts';
import {
  addressField,
  encodePhrase,
  formatDate,
  hasForbiddenControl,
  isHeaderName,
  newMessageId,
  parameter,
  textField,
} from './header.ts';

function address(text: string) {
  const result = parseAddress(text);
  assert.ok(result.ok);
  return result.value;
}

const unfold = (field: string) => field.replace(/\r\n(?=[ \t])/g, '');
const parse = (header: string) => PostalMime.parse(`${header}\r\n\r\n`);

/** Any valid header text. */
const text = fc
  .string({
    unit: fc.oneof(
      fc.constantFrom(' ', 'a', '=', '?', '"', ',', '<', 'é', '漢', '🚀'),
      fc.string({ unit: 'binary', maxLength: 1 }),
    ),
    maxLength: 200,
  })
  .map((value) => value.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\ufeff]/gu, ''));

function assertWellFormed(field: string): void {
  assert.match(field, /\r\n$/);
  assert.doesNotMatch(field, /[^\x00-\x7f]/);
  for (const line of field.slice(0, -2).split('\r\n')) {
    assert.ok(line.length <= 998, `line of ${line.length} characters`);
    assert.doesNotMatch(line, /[\r\n\0]/);
    if (line.includes('=?UTF-8?')) assert.ok(line.length <= 78, line);
    for (const word of line.match(/=\?UTF-8\?[^ ]*\?=/g) ?? []) assert.ok(word.length <= 75, word);
  }
  for (const line of field.split('\r\n').slice(1, -1)) assert.match(line, /^[ \t].*[^ \t]/);
}

test('any subject is decoded as it was written', async () => {
  await fc.assert(
    fc.asyncProperty(text, async (value) => {
      const field = textField('Subject', value);
      assertWellFormed(field);
      const parsed = await parse(field);
      assert.equal((parsed.subject ?? '').trim().replace(/[ \t]+/g, ' '), value.trim().replace(/[ \t]+/g, ' '));
    }),
    { numRuns: 300 },
  );
});

test('a subject that looks encoded is displayed literally', async () => {
  const value = '=?UTF-8?B?SGVsbG8=?= =?utf-8?q?x?=';
  assert.equal((await parse(textField('Subject', value))).subject, value);
});

test('ASCII fields stay readable and are folded at 78', () => {
  assert.equal(textField('Subject', 'Your receipt'), 'Subject: Your receipt\r\n');
  const long = textField('Subject', 'word '.repeat(60).trim());
  assert.ok(long.split('\r\n').every((line) => line.length <= 78));
  assert.equal(unfold(long), `Subject: ${'word '.repeat(60).trim()}\r\n`);
  assertWellFormed(textField('Subject', `${'x'.repeat(998)}`));
  assertWellFormed(textField('Subject', ' '.repeat(990)));
});

test('extra fields keep their structure around encoded words, and ASCII is unchanged', () => {
  assert.equal(extraField('X-A', '=?utf-8?q?given?='), 'X-A: =?utf-8?q?given?=\r\n');
  assert.equal(extraField('List-Id', 'Bücher <books.example>'), 'List-Id: =?UTF-8?Q?B=C3=BCcher?= <books.example>\r\n');
  assert.equal(
    extraField('X-B', 'a über all things böse c'),
    'X-B: a =?UTF-8?Q?=C3=BCber_all_things_b=C3=B6se?= c\r\n',
  );
  fc.assert(
    fc.property(text, (value) => assertWellFormed(extraField('X-Any', value))),
    { numRuns: 300 },
  );
});

test('display names are decoded as they were written', async () => {
  await fc.assert(
    fc.asyncProperty(text, async (name) => {
      const field = addressField('From', [{ ...address('a@b.example'), name: name.trim() }]);
      assertWellFormed(field);
      const parsed = await parse(field);
      assert.equal(parsed.from?.address, 'a@b.example', field);
      assert.equal((parsed.from?.name ?? '').replace(/\s+/g, ' ').trim(), name.replace(/\s+/g, ' ').trim(), field);
    }),
    { numRuns: 300 },
  );
  assert.equal(encodePhrase('Ann Lee'), 'Ann Lee');
  assert.equal(encodePhrase('Lee, "Ann"'), '"Lee, \\"Ann\\""');
  assert.equal(encodePhrase('Zoë'), '=?UTF-8?Q?Zo=C3=AB?=');
  assert.equal(encodePhrase('日本語'), '=?UTF-8?B?5pel5pys6Kqe?=');
});

test('address lists are folded between addresses', async () => {
  const list = Array.from({ length: 50 }, (_, i) => address(`Person Number ${i} <person${i}@example.com>`));
  const field = addressField('To', list);
  assert.ok(field.split('\r\n').every((line) => line.length <= 78));
  const parsed = await parse(field);
  assert.deepEqual(
    parsed.to?.map((item) => item.address),
    list.map((item) => item.address),
  );
});

test('parameters are quoted if ASCII, in RFC 2231 form otherwise, and continued if long', async () => {
  assert.equal(parameter('filename', 'a "b".pdf'), ';\r\n filename="a \\"b\\".pdf"');
  assert.equal(parameter('filename', "Ü'(1)*%.pdf"), ";\r\n filename*=UTF-8''%C3%9C%27%281%29%2A%25.pdf");
  for (const name of ['"'.repeat(255), '"'.repeat(700), 'x'.repeat(2000)]) {
    assert.ok(
      parameter('filename', name)
        .split('\r\n')
        .every((line) => line.length <= 998),
    );
  }
  const long = parameter('filename', `${'漢字'.repeat(40)}.pdf`);
  assert.match(long, /filename\*0\*=UTF-8''/);
  assert.match(long, /filename\*1\*=[^']/);
  assert.ok(long.split('\r\n').every((line) => line.length <= 78));
});

test('validates header names and control characters, and formats dates and message IDs', () => {
  assert.ok(isHeaderName('X-Thing'));
  for (const name of ['', 'X Thing', 'X:', 'Ü', 'X\r\n', 'x'.repeat(77)]) assert.ok(!isHeaderName(name), name);
  for (const c of ['\r', '\n', '\0', '\x01', '\x0b', '\x7f', '\u0085', '\u2028', '\u2029']) {
    assert.ok(hasForbiddenControl(`a${c}b`));
    assert.throws(() => textField('Subject', `a${c}Bcc: x@y.example`), TypeError);
    assert.throws(() => extraField('X-A', `a${c}`), TypeError);
    assert.throws(() => parameter('filename', `a${c}`), TypeError);
    assert.throws(() => encodePhrase(`a${c}`), TypeError);
  }
  assert.ok(!hasForbiddenControl('a\tb ü'));
  assert.equal(formatDate(Date.UTC(2026, 10, 20, 9, 44, 0, 999)), 'Fri, 20 Nov 2026 09:44:00 +0000');
  assert.equal(formatDate(Date.UTC(2026, 2, 1)), 'Sun, 01 Mar 2026 00:00:00 +0000');
  const ids = new Set(Array.from({ length: 1000 }, () => newMessageId('Bücher.example', 1_700_000_000_000)));
  assert.equal(ids.size, 1000);
  for (const id of ids) assert.match(id, /^<[0-9a-z]+\.[0-9A-Za-z]{16}@xn--bcher-kva\.example>$/);
});

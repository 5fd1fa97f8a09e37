/** Header fields that callers set: links and message ids stay usable, and everything else becomes encoded-words. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeWords } from '../mime/header-fields.ts';
import { extraField, structuredIssue } from './extra-field.ts';

const FIELDS: [name: string, value: string, written: string][] = [
  ['List-Unsubscribe', '<https://shop.example/ü?x=1>', '<https://shop.example/%C3%BC?x=1>'],
  [
    'List-Unsubscribe',
    '<mailto:u@shop.example?subject=Grüße>, <https://x/é>',
    '<mailto:u@shop.example?subject=Gr%C3%BC%C3%9Fe>,\r\n <https://x/%C3%A9>',
  ],
  ['list-help', 'https://shop.example/hilfe/ü', 'https://shop.example/hilfe/%C3%BC'],
  ['Archived-At', '<https://shop.example/漢>', '<https://shop.example/%E6%BC%A2>'],
  ['List-Help', '<https://x.example/🚀>', '<https://x.example/%F0%9F%9A%80>'],
  ['List-Help', '<https://x.example/\ud83d>', '<https://x.example/%EF%BF%BD>'],
  ['List-Id', 'Bücher <books.example>', '=?UTF-8?Q?B=C3=BCcher?= <books.example>'],
  ['List-Id', 'Die Bücher<books.example>', 'Die =?UTF-8?Q?B=C3=BCcher?= <books.example>'],
  ['List-Id', '"Bücher, neu" <books.example>', '=?UTF-8?B?QsO8Y2hlciwgbmV1?= <books.example>'],
  [
    'List-Id',
    '"Books, \\"new\\"" (für alle) <b.example>',
    '"Books, \\"new\\"" (=?UTF-8?Q?f=C3=BCr?= alle) <b.example>',
  ],
  ['List-Post', 'NO (é <https://x.example/é> ü)', 'NO (=?UTF-8?B?w6k=?= <https://x.example/%C3%A9> =?UTF-8?B?w7w=?=)'],
  ['List-Unsubscribe', '<https://x.example/a>', '<https://x.example/a>'],
  ['References', '<1@x.example> <2@x.example>', '<1@x.example> <2@x.example>'],
  ['X-Link', 'see <https://x.example/ü>', 'see =?UTF-8?B?PGh0dHBzOi8veC5leGFtcGxlL8O8Pg==?='],
];
for (const [name, value, written] of FIELDS) {
  test(`writes ${name}: ${value}`, () => assert.equal(extraField(name, value), `${name}: ${written}\r\n`));
}

const linkOf = (length: number): string => `<https://x.example/${'a'.repeat(length - 20)}>`;

test('a long link stays as it is if it fits into a line, which may start after the colon', () => {
  const long = linkOf(917);
  assert.equal(long.length, 917);
  assert.equal(extraField('List-Unsubscribe', long), `List-Unsubscribe: ${long}\r\n`);
  const longest = linkOf(997);
  assert.equal(extraField('List-Unsubscribe', longest), `List-Unsubscribe:\r\n ${longest}\r\n`);
  assert.equal(extraField('List-Help', `${long},  ${longest}`), `List-Help: ${long},\r\n ${longest}\r\n`);
  assert.equal(extraField('List-Help', `<https://x.example/ü>, ${long}`).split('\r\n')[1], ` ${long}`);
  assert.equal(extraField('In-Reply-To', long), `In-Reply-To: ${long}\r\n`);
  const ids = '<0123456789@x.example>'.repeat(60);
  assert.ok(
    extraField('References', ids)
      .split('\r\n')
      .every((line) => line.length <= 78),
    'ids without spaces are folded',
  );
});

test('a message ID beyond ASCII and a link that fits into no line are reported', () => {
  assert.match(structuredIssue('In-Reply-To', '<ü@x.example>') ?? '', /not allowed in a message ID/);
  assert.match(structuredIssue('references', '<1@x.example> é') ?? '', /not ASCII/);
  assert.match(structuredIssue('List-Unsubscribe', linkOf(998)) ?? '', /has 998 characters without a space/);
  assert.match(structuredIssue('List-Help', `<https://x.example/${'ü'.repeat(200)}>`) ?? '', /has 1220 characters/);
  assert.match(structuredIssue('References', `<${'1'.repeat(1000)}@x.example>`) ?? '', /at most 997 fit into a line/);
  for (const [name, value] of [
    ['List-Unsubscribe', linkOf(997)],
    ['List-Unsubscribe', `${linkOf(900)},${linkOf(900)}`],
    ['List-Id', `${'ü'.repeat(2000)} <x.example>`],
    ['References', '<1@x.example>'.repeat(1000)],
    ['X-Long', 'x'.repeat(5000)],
    ['X-Text', 'ü'],
  ] as const)
    assert.equal(structuredIssue(name, value), undefined, `${name}: ${value.slice(0, 40)}`);
});

test('any value without an issue becomes valid lines, with encoded-words outside of links only', () => {
  const value = fc
    .array(
      fc.oneof(
        fc.constantFrom(' ', '<', '>', '"', '\\', '(', ')', ',', 'é', '漢', '🚀', 'a', 'https:', '<https://x/é>', '=?'),
        fc.constantFrom('x'.repeat(400), 'ü'.repeat(90), '  ', '\t'),
      ),
      { maxLength: 40 },
    )
    .map((pieces) => pieces.join('').trim());
  fc.assert(
    fc.property(value, fc.constantFrom('List-Unsubscribe', 'List-Id', 'References', 'X-Any'), (text, name) => {
      const field = extraField(name, text);
      assert.match(field, /^[\x00-\x7f]*\r\n$/);
      if (structuredIssue(name, text) !== undefined) return;
      for (const line of field.slice(0, -2).split('\r\n')) assert.ok(line.length <= 998, `${line.length}: ${text}`);
      for (const line of field.slice(0, -2).split('\r\n').slice(1)) assert.match(line, /^[ \t].*[^ \t]/);
      if (!name.startsWith('List-')) return;
      for (const [link] of field.replaceAll('\r\n', '').matchAll(/<[^<>]*>/g))
        assert.equal(decodeWords(link.replaceAll('=?', '')), link.replaceAll('=?', ''), link);
    }),
    { numRuns: 1000 },
  );
});

test('hostile values are written in linear time', () => {
  const start = process.cpuUsage();
  for (const piece of ['<', '"', '\\"', '<é', 'é ', '(é', '"é', 'é"\\', '>,<', 'https:é ', 'x', 'é<'])
    for (const name of ['List-Help', 'References']) {
      structuredIssue(name, piece.repeat(20_000));
      extraField(name, piece.repeat(20_000));
    }
  for (const end of ['', 'x', 'é']) extraField('X-Spaces', `x${' '.repeat(100_000)}${end}`);
  const { user, system } = process.cpuUsage(start);
  assert.ok(user + system < 5_000_000, `${(user + system) / 1000} ms`);
});

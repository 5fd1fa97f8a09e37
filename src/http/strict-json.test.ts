/** Strict JSON: rejected texts with their messages, otherwise the result of JSON.parse, and low cost for hostile bodies. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { runningMs } from '../../test/kit/running-time.ts';
import { parseExactJson } from '../base/exact-json.ts';
import { explain, MAX_DEPTH, parseStrictJson } from './strict-json.ts';

function issues(body: string | Buffer): string[] {
  const result = parseStrictJson(Buffer.from(body as string));
  if (result.ok) return [];
  assert.equal(result.failure.code, 'INVALID_REQUEST');
  return result.failure.details.map((issue) => `${issue.field}|${issue.message}`);
}

test('issues name the field or the position', () => {
  const cases: [string | Buffer, string[]][] = [
    ['', ['|is empty; send a JSON object']],
    ['{"a":1,"a":2}', ['a|is given more than once']],
    ['{"a":1,"\\u0061":2}', ['a|is given more than once']],
    ['{"x":[{"b":1},{"b":1,"c":{},"b":"}{"}]}', ['x[1].b|is given more than once']],
    ['{"__proto__":{"a":1}}', ['__proto__|is not an allowed key']],
    ['{"a":[{"\\u005f_proto__":1}]}', ['a[0].__proto__|is not an allowed key']],
    ['{"m":{"constructor":{"prototype":{"a":1}}}}', ['m.constructor|is not an allowed key']],
    ['{"a":"\\ud800"}', ['a|contains half of a surrogate pair']],
    ['{"a":"\\udc00\\ud800"}', ['a|contains half of a surrogate pair']],
    ['{"a":["x","\\u0000"]}', ['a[1]|contains the NUL character']],
    ['{"a\\u0000":1}', ['a\0|as a key contains the NUL character']],
    ['{"a":1e400,"b":-1e999}', ['a|is a number that is too large', 'b|is a number that is too large']],
    [Buffer.from([0x22, 0xff, 0x22]), ['|is not valid UTF-8']],
    [Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), ['|is not valid UTF-8']],
    [Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]), ['|starts with a byte order mark; send UTF-8 without one']],
    ['{"a":1,\n "b":tru}', ['|is not valid JSON (line 2, column 6)']],
    ['{"a":1', ['|ends before its JSON is complete (line 1, column 7)']],
    ["{'a':1}", ['|is not valid JSON (line 1, column 2)']],
    ['{"a":1,}', ['|is not valid JSON (line 1, column 8)']],
    ['{"a":"\n"}', ['|is not valid JSON (line 1, column 7)']],
    ['{"a":01}', ['|is not valid JSON (line 1, column 7)']],
    ['{} {}', ['|is not valid JSON (line 1, column 4)']],
    ['NaN', ['|is not valid JSON (line 1, column 1)']],
    [`${'['.repeat(33)}${']'.repeat(33)}`, ['|is nested deeper than 32 levels (line 1, column 33)']],
  ];
  for (const [body, expected] of cases) assert.deepEqual(issues(body), expected, String(body));
});

test('unusual but valid texts are accepted', () => {
  const bodies = [
    '{"a":"{\\"a\\":1}","b":"\\\\"}',
    '{"a":"\\ud83d\\ude00","constructor":"Bob & Sons"}',
    '[{"a":1},{"a":1}]',
    `${'['.repeat(MAX_DEPTH)}${']'.repeat(MAX_DEPTH)}`,
    ' \t\r\n{"é":"ü\\n"} ',
  ];
  for (const body of bodies) {
    const result = parseStrictJson(Buffer.from(body));
    assert.deepEqual(result, { ok: true, value: JSON.parse(body) }, body);
  }
});

test('any JSON value is parsed like JSON.parse, with all digits of integers', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6, stringUnit: 'grapheme' }), (text) => {
      const result = parseStrictJson(Buffer.from(text));
      // The generator can create keys that are rejected on purpose.
      if (!result.ok) assert.match(text, /__proto__|\\u0000|\\u[dD]|e\+?\d{3}/);
      else assert.deepEqual(result.value, parseExactJson(text));
    }),
    { numRuns: 300 },
  );
});

test('integers beyond double precision are bigints, and all other numbers are numbers', () => {
  const cases: [text: string, value: unknown][] = [
    ['[9007199254740991, -9007199254740991]', [9007199254740991, -9007199254740991]],
    ['[9007199254740993, -7615917337495251231]', [9007199254740993n, -7615917337495251231n]],
    [
      '{"a":{"b":[18446744073709551615, 1.5, 1e20, 0.25, "9007199254740993"]}}',
      {
        a: { b: [18446744073709551615n, 1.5, 1e20, 0.25, '9007199254740993'] },
      },
    ],
    ['{"\\u0061": 9007199254740993}', { a: 9007199254740993n }],
  ];
  for (const [text, value] of cases) {
    const result = parseStrictJson(Buffer.from(text));
    assert.deepEqual(result, { ok: true, value }, text);
    assert.equal(JSON.stringify(value), JSON.stringify(result.value), text);
  }
  assert.equal(JSON.stringify({ id: 7615917337495251231n }), '{"id":7615917337495251231}');
  assert.equal(parseStrictJson(Buffer.from(`[${'9'.repeat(400)}]`)).ok, false);
});

test('escapes do not change how text is validated', () => {
  const member = fc.oneof(
    fc.constantFrom('a', 'b', 'constructor', 'prototype', '__proto__', '1'),
    fc.string({ maxLength: 3 }),
  );
  const { value: anyValue } = fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom('1', '1e999', '-1e999', 'null', 'true', '"x"', '{}', '[]'),
      fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
      fc
        .array(fc.tuple(member, tie('value')), { maxLength: 4 })
        .map((members) => `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
    ),
  }));
  fc.assert(
    fc.property(anyValue, (value) => {
      const plain = parseStrictJson(Buffer.from(`[${value},"A"]`));
      const escaped = parseStrictJson(Buffer.from(`[${value},"\\u0041"]`));
      assert.deepEqual(plain, escaped, value);
    }),
    { numRuns: 1_000 },
  );
});

test('syntax errors have the same position as in V8', () => {
  fc.assert(
    fc.property(
      fc.json({ maxDepth: 3 }),
      fc.nat(),
      fc.constantFrom('', '"', '}', ',', ':', '\\', 'x', '\u0001'),
      (text, at, junk) => {
        const cut = at % (text.length + 1);
        const broken = text.slice(0, cut) + junk + text.slice(cut + 1);
        let valid = true;
        try {
          JSON.parse(broken);
        } catch {
          valid = false;
        }
        assert.equal(valid, isWholeJson(broken), broken);
      },
    ),
    { numRuns: 500 },
  );
});

/** explain is used only for invalid texts; it reads a valid text to its end. */
function isWholeJson(text: string): boolean {
  if (text.trim() === '') return false;
  // A valid text stays valid with a trailing space, and becomes invalid at a trailing bracket.
  return explain(`${text} ]`).endsAt === text.length + 1 && explain(`[${text}\n]x`).endsAt === text.length + 3;
}

test('16 MB of hostile input are parsed within a second and pollute nothing', () => {
  const bodies = [
    '['.repeat(16e6),
    `{${Array.from({ length: 1e6 }, (_, index) => `"k${index}":1`).join(',')}}`,
    `["${'\\"'.repeat(8e6 - 2)}"`,
    `"${'\\'.repeat(16e6 - 1)}"`,
    `[${'"",'.repeat(5e6)}""]`,
    `{${'"a":1,'.repeat(90_000)}"b":2}`,
    '\n'.repeat(16e6),
    '1'.repeat(16e6),
  ].map((text) => Buffer.from(text));
  for (const body of bodies) {
    let ms = Number.POSITIVE_INFINITY;
    // A busy machine slows the work down several times, but rarely three times in a row.
    for (let tries = 0; ms >= 1_000 && tries < 3; tries += 1) {
      const before = runningMs();
      const result = parseStrictJson(body);
      ms = Math.min(ms, runningMs() - before);
      assert.equal(result.ok, false);
      assert.ok(result.ok || result.failure.details.length <= 100);
    }
    assert.ok(ms < 1_000, `${ms} ms for ${body.subarray(0, 20)}`);
  }
  parseStrictJson(Buffer.from('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'));
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

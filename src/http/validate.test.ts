/** Schemas: every issue has its path and an actionable message, unions report one issue, and lengths are in characters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import type { IssueCode } from '../base/failure.ts';
import { Type } from './schema-type.ts';
import { closed, compile, isIsoTime, isoTimeMs, mapOf, oneOf } from './validate.ts';

const address = Type.String({ minLength: 1, maxLength: 20 });
const validate = compile(
  closed({
    from: address,
    to: Type.Optional(Type.Union([address, Type.Array(address, { maxItems: 3 })])),
    attachments: Type.Optional(
      Type.Array(closed({ sha256: Type.String({ pattern: '^[0-9a-f]{64}$', phrase: 'must be 64 hex characters' }) }), {
        maxItems: 2,
      }),
    ),
    retain: Type.Optional(Type.Union([Type.Literal('none'), Type.Literal('7d')])),
    type: Type.Optional(oneOf(['a', 'b'])),
    render: Type.Optional(Type.Boolean()),
    metadata: Type.Optional(mapOf(Type.String({ maxLength: 3 }), { maxProperties: 2 })),
    seconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 100 })),
    sendAt: Type.Optional(Type.String({ format: 'date-time' })),
  }),
);

function issues(value: unknown): string[] {
  const result = validate(value);
  return result.ok ? [] : result.failure.details.map((issue) => `${issue.field}: ${issue.message}`);
}

test('each issue has a code for programs', () => {
  const cases: [unknown, string, IssueCode][] = [
    [{}, 'from', 'REQUIRED'],
    [{ from: 'a', form: 1 }, 'form', 'UNKNOWN_FIELD'],
    [{ from: '' }, 'from', 'TOO_SHORT'],
    [{ from: 'a', to: 'x'.repeat(21) }, 'to', 'TOO_LONG'],
    [{ from: 'a', to: ['b', 'b', 'b', 'b'] }, 'to', 'TOO_LONG'],
    [{ from: 'a', to: 5 }, 'to', 'WRONG_TYPE'],
    [{ from: 'a', attachments: [{ sha256: 'x' }] }, 'attachments[0].sha256', 'WRONG_FORMAT'],
    [{ from: 'a', retain: 'x' }, 'retain', 'NOT_ALLOWED'],
    [{ from: 'a', type: 'c' }, 'type', 'NOT_ALLOWED'],
  ];
  for (const [value, field, code] of cases) {
    const result = validate(value);
    assert.deepEqual(!result.ok && result.failure.details.map((issue) => [issue.field, issue.code]), [[field, code]]);
  }
});

test('each issue has the path of its field and a message', () => {
  const cases: [unknown, string[]][] = [
    [{ from: 'a', to: ['b'], metadata: { k: 'v' } }, []],
    [{}, ['from: is required']],
    [[], [': must be an object']],
    [{ from: 'a', form: 1 }, ['form: is not a known field']],
    [{ from: '' }, ['from: must not be empty']],
    [
      { from: 'a', attachments: [{ sha256: 'x' }, { sha256: 1 }] },
      ['attachments[0].sha256: must be 64 hex characters', 'attachments[1].sha256: must be a string'],
    ],
    [
      { from: 'a', attachments: [{ extra: 1 }] },
      ['attachments[0].sha256: is required', 'attachments[0].extra: is not a known field'],
    ],
    [{ from: 'a', to: 5 }, ['to: must be a string or an array of strings']],
    [{ from: 'a', to: ['b', 5] }, ['to[1]: must be a string']],
    [{ from: 'a', to: ['b', 'b', 'b', 'b'] }, ['to: must have at most 3 elements']],
    [{ from: 'a', to: 'x'.repeat(21) }, ['to: must be at most 20 characters long']],
    [{ from: 'a', retain: 'x' }, ['retain: must be one of: none, 7d']],
    [{ from: 'a', retain: 7 }, ['retain: must be one of: none, 7d']],
    [{ from: 'a', type: 'c' }, ['type: must be one of: a, b']],
    [{ from: 'a', type: 7 }, ['type: must be one of: a, b']],
    [{ from: 'a', render: 'true' }, ['render: must be true or false']],
    [{ from: 'a', render: null }, ['render: must be true or false']],
    [
      { from: 'a', metadata: { a: 'toolong', 'b\nc': 1 } },
      ['metadata.a: must be at most 3 characters long', 'metadata.b\nc: must be a string'],
    ],
    [{ from: 'a', metadata: { a: '', b: '', c: '' } }, ['metadata: must have at most 2 entries']],
    [{ from: 'a', seconds: 59.5 }, ['seconds: must be a whole number', 'seconds: must be at least 60']],
    [{ from: 'a', seconds: 101 }, ['seconds: must be at most 100']],
    [{ from: 'a', sendAt: 'soon' }, ['sendAt: must be an ISO 8601 time such as 2026-11-20T09:44:00.000Z']],
  ];
  for (const [value, expected] of cases)
    assert.deepEqual(issues(value).sort(), [...expected].sort(), JSON.stringify(value));
});

test('lengths count characters, not UTF-16 units', () => {
  assert.deepEqual(issues({ from: '😀'.repeat(20) }), []);
  assert.deepEqual(issues({ from: '😀'.repeat(21) }), ['from: must be at most 20 characters long']);
});

test('a value is validated, never changed', () => {
  const value = { from: 'a', seconds: '70' };
  assert.deepEqual(issues(value), ['seconds: must be a whole number']);
  assert.deepEqual(value, { from: 'a', seconds: '70' });
});

test('at most a hundred issues are reported', () => {
  const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`k${index}`, 1]));
  const before = runningMs();
  assert.equal(issues(many).length, 100);
  assert.ok(runningMs() - before < 500);
});

test('times must exist and have a zone', () => {
  for (const good of [
    '2026-11-20T09:44:00Z',
    '2026-11-20T09:44:00.123Z',
    '2026-02-28T23:59:59+02:00',
    '2026-11-20T09:44Z',
  ]) {
    assert.equal(isIsoTime(good), true, good);
  }
  const leap: [text: string, read: string][] = [
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2016-12-31T15:59:60.5-08:00', '2017-01-01T00:00:00.500Z'],
    ['2015-07-01T05:29:60.999999999+05:30', '2015-07-01T00:00:00.999Z'],
  ];
  for (const [text, read] of leap) {
    assert.equal(isIsoTime(text), true, text);
    assert.equal(new Date(isoTimeMs(text)).toISOString(), read);
  }
  for (const bad of [
    '2016-12-31T23:58:60Z',
    '2016-12-31T22:59:60Z',
    '2016-12-30T23:59:60Z',
    '2016-12-31T23:59:60+01:00',
    '1969-02-01T00:00:60Z',
    '2016-12-31T23:59:61Z',
    '2016-12-31T25:59:60Z',
    '2016-12-31T23:59:60',
    '2026-11-20',
    '2026-11-20T09:44:00',
    '2026-02-30T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '20 Nov 2026',
    '2026-11-20T25:00:00Z',
  ]) {
    assert.equal(isIsoTime(bad), false, bad);
  }
});

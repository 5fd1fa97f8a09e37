/** Null and [] in request bodies: absent and {} unless the schema gives them a meaning. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileBody } from './absent-fields.ts';
import { Type } from './schema-type.ts';
import { closed, mapOf } from './validate.ts';

const validate = compileBody(
  closed({
    from: Type.String(),
    to: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
    name: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    files: Type.Optional(Type.Array(closed({ id: Type.String(), contentId: Type.Optional(Type.String()) }))),
    metadata: Type.Optional(mapOf(Type.String(), { maxProperties: 2 })),
    variables: Type.Optional(mapOf(Type.Unknown(), { maxProperties: 2 })),
  }),
);

test('null is treated as absent and [] as an empty object', () => {
  const cases: [unknown, unknown][] = [
    [{ from: 'a', to: null, metadata: null, files: null }, { from: 'a' }],
    [
      { from: 'a', name: null },
      { from: 'a', name: null },
    ],
    [
      { from: 'a', metadata: [], variables: [] },
      { from: 'a', metadata: {}, variables: {} },
    ],
    [
      { from: 'a', to: [], files: [] },
      { from: 'a', to: [], files: [] },
    ],
    [
      { from: 'a', files: [{ id: 'x', contentId: null }] },
      { from: 'a', files: [{ id: 'x' }] },
    ],
    [
      { from: 'a', variables: { x: null, y: [] } },
      { from: 'a', variables: { x: null, y: [] } },
    ],
  ];
  for (const [sent, read] of cases) {
    const before = structuredClone(sent);
    const result = validate(sent);
    assert.deepEqual(result.ok && result.value, read, JSON.stringify(sent));
    assert.deepEqual(sent, before);
  }
});

test('null is rejected in required and unknown fields, lists, and maps, and [] as a body', () => {
  const wrong = [
    { from: null },
    { from: 'a', other: null },
    { from: 'a', to: [null] },
    { from: 'a', metadata: { k: null } },
    [],
  ];
  for (const sent of wrong) assert.equal(validate(sent).ok, false, JSON.stringify(sent));
});

test('large integers are accepted only in fields of any type', () => {
  const bounded = compileBody(
    closed({ seconds: Type.Integer({ maximum: 100 }), any: mapOf(Type.Unknown(), { maxProperties: 2 }) }),
  );
  const refused = bounded({ seconds: 7615917337495251231n, any: {} });
  assert.equal(refused.ok, false);
  assert.deepEqual(!refused.ok && refused.failure.details, [
    { field: 'seconds', code: 'TOO_LARGE', message: 'must be at most 100' },
  ]);
  const any = { id: 7615917337495251231n, list: [{ id: 9007199254740993n }] };
  assert.deepEqual(bounded({ seconds: 1, any }), { ok: true, value: { seconds: 1, any } });
});

/** Bodies that do not match their schema: valid parts are validated further, and all issues are reported together. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { httpShell, KEY_HEADERS, type Shell } from '../../test/kit/http-shell.ts';
import type { Issue } from '../base/failure.ts';
import { type CallerKey, defineRoute } from './route.ts';
import { Type } from './schema-type.ts';
import { closed } from './validate.ts';

const body = closed({
  email: Type.String({ maxLength: 100 }),
  reason: Type.Optional(Type.String({ maxLength: 10 })),
  lines: Type.Optional(Type.Array(Type.String({ maxLength: 3 }), { maxItems: 3 })),
});

let shell: Shell;
before(async () => {
  const checked = defineRoute<CallerKey, typeof body>({
    method: 'POST',
    path: '/checked',
    summary: 'Checked twice',
    tag: 'notes',
    access: { auth: 'key' },
    body: {
      schema: body,
      furtherIssues: ({ email, lines }, malformed): Issue[] => [
        ...(lines ?? []).flatMap((line, index) =>
          line === 'no' ? [{ field: `lines[${index}]`, message: 'is no line' }] : [],
        ),
        ...(email?.includes('@') ? [] : [{ field: 'email', message: 'is no address' }]),
        ...(lines === undefined && !malformed.has('lines') ? [{ field: 'reason', message: 'needs lines' }] : []),
      ],
    },
    response: { status: 200 },
    handle: () => ({ ok: true, body: {} }),
  });
  shell = await httpShell({ more: [checked] });
});
after(() => shell.close());

async function issuesOf(json: unknown): Promise<string[]> {
  const headers = { ...KEY_HEADERS, 'Content-Type': 'application/json' };
  const answer = await fetch(`${shell.url}/checked`, { method: 'POST', headers, body: JSON.stringify(json) });
  if (answer.status === 200) return [];
  const { error } = (await answer.json()) as { error: { code: string; details: Issue[] } };
  assert.deepEqual([answer.status, error.code], [400, 'INVALID_REQUEST']);
  return error.details.map((issue) => issue.field);
}

test('issues of valid and invalid fields are reported together', async () => {
  assert.deepEqual(await issuesOf({ email: 'nobody', colour: 'red' }), ['colour', 'email', 'reason']);
  assert.deepEqual(await issuesOf({ email: 'nobody', lines: ['too long'] }), ['lines[0]', 'email']);
});

test('a malformed or missing field is reported once', async () => {
  assert.deepEqual(await issuesOf({ email: 7, lines: [] }), ['email']);
  assert.deepEqual(await issuesOf({ lines: [] }), ['email']);
  assert.deepEqual(await issuesOf([]), ['']);
});

test('if not all issues are reported, no field is treated as valid', async () => {
  const unknown = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`unknown${i}`, i]));
  assert.equal((await issuesOf({ ...unknown, email: 7, lines: 'x' })).length, 100);
});

test('remaining list elements keep their indexes, and a wrong length excludes none', async () => {
  assert.deepEqual(await issuesOf({ email: 'a@x', lines: ['ab', 'too long', 'no'] }), ['lines[1]', 'lines[2]']);
  assert.deepEqual(await issuesOf({ email: 'a@x', lines: ['no', 'ab', 'ab', 'ab'] }), ['lines', 'lines[0]']);
  assert.deepEqual(await issuesOf({ email: 'a@x', lines: 'no' }), ['lines']);
});

test('JSON errors do not hide schema issues', async () => {
  const headers = { ...KEY_HEADERS, 'Content-Type': 'application/json' };
  const body = '{"email":"a","email":7,"reason":"\\u0000","colour":1}';
  const answer = await fetch(`${shell.url}/checked`, { method: 'POST', headers, body });
  const { error } = (await answer.json()) as { error: { details: Issue[] } };
  assert.deepEqual(
    error.details.map((issue) => issue.field),
    ['reason', 'email', 'colour'],
  );
});

test('a valid body is validated completely even if the JSON or query has issues', async () => {
  const headers = { ...KEY_HEADERS, 'Content-Type': 'application/json' };
  const named = async (query: string, body: string): Promise<string[]> => {
    const answer = await fetch(`${shell.url}/checked${query}`, { method: 'POST', headers, body });
    const { error } = (await answer.json()) as { error: { details: Issue[] } };
    return error.details.map((issue) => issue.field);
  };
  assert.deepEqual(await named('', '{"email":"nobody","lines":[],"reason":"\\u0000"}'), ['reason', 'email']);
  assert.deepEqual(await named('?email=1', '{"email":"nobody","lines":[]}'), ['email', 'email']);
});

test('a valid body is passed to the handler', async () => {
  assert.deepEqual(await issuesOf({ email: 'nobody' }), []);
});

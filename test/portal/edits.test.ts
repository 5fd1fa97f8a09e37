/** Forms send only what their user has changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differing } from '../../portal/src/parts/edits.ts';

interface Fields {
  url: string | null;
  events: string[];
  headers: Record<string, string>;
  removed?: string | undefined;
}

const base: Fields = { url: 'https://shop.example/', events: ['Bounce'], headers: { a: '1' } };

test('the changes are the fields with other values', () => {
  assert.deepEqual(differing<Fields>(base, structuredClone(base)), {});
  assert.deepEqual(differing<Fields>(base, { ...base, url: null }), { url: null });
  assert.deepEqual(differing<Fields>(base, { ...base, events: ['Bounce', 'Complaint'], headers: { a: '1' } }), {
    events: ['Bounce', 'Complaint'],
  });
});

test('a field can be removed, and fields that are not given are unchanged', () => {
  assert.deepEqual(differing<Fields>({ ...base, removed: 'x' }, { removed: undefined }), { removed: undefined });
  assert.deepEqual(differing<Fields>(base, { removed: undefined }), {});
});

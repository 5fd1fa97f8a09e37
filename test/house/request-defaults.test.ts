/** openapi-typescript makes a property with a default required: no schema of the API may have one. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

function defaultsIn(value: unknown, path: string, isNames = false): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const own = !isNames && 'default' in value && !path.endsWith('responses') ? [path] : [];
  const members = Object.entries(value).filter(([key]) => isNames || (key !== 'example' && key !== 'examples'));
  return own.concat(
    members.flatMap(([key, one]) => defaultsIn(one, `${path}/${key}`, key === 'properties' && !isNames)),
  );
}

test('no schema in openapi.json has a default', () => {
  const { components } = JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'));
  assert.deepEqual(defaultsIn({ properties: { a: { default: 1 }, default: {} } }, ''), ['/properties/a']);
  assert.deepEqual(defaultsIn(components.schemas, '', true), []);
});

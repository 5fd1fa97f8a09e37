/** Each bug that the simulation plants finds its place in the source: who changes that line changes the bug with it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PLANTED, type Planted } from '../simulation/planted.ts';
import { PLANTED_NODES } from '../simulation/planted-nodes.ts';

const placesOf = ({ file, find }: Planted): number =>
  readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8').split(find).length - 1;

test('each planted bug has exactly one place in the source', () => {
  const changes = Object.entries({ ...PLANTED, ...PLANTED_NODES }).flatMap(([name, { also, ...planted }]) =>
    [planted, ...(also ? [also] : [])].map((change) => [name, placesOf(change)] as const),
  );
  assert.ok(changes.length > 60);
  assert.deepEqual(
    changes.filter(([, places]) => places !== 1),
    [],
  );
});

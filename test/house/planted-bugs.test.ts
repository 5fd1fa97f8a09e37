/** Each planted bug of the simulation matches one place in the source, whatever its formatting. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PLANTED, type Planted } from '../simulation/planted.ts';
import { PLANTED_NODES } from '../simulation/planted-nodes.ts';
import { PLANTED_OVERLAPPING } from '../simulation/planted-overlapping.ts';
import { placesOf } from '../simulation/source-place.ts';

const placesIn = ({ file, find }: Planted): number =>
  placesOf(readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8'), find);

test('each planted bug has exactly one place in the source', () => {
  const changes = Object.entries({ ...PLANTED, ...PLANTED_NODES, ...PLANTED_OVERLAPPING }).flatMap(
    ([name, { also, ...planted }]) =>
      [planted, ...(also ? [also] : [])].map((change) => [name, placesIn(change)] as const),
  );
  assert.ok(changes.length > 60);
  assert.deepEqual(
    changes.filter(([, places]) => places !== 1),
    [],
  );
});

test('formatting does not move a place, but other tokens do', () => {
  const text = 'if (a.b === 1) return run({ c, d });';
  assert.equal(placesOf('x;\n  if (\n    a.b === 1\n  )\n    return run({\n c,\n d });', text), 1);
  assert.equal(placesOf('if (a.b === 1) returnrun({ c, d });', text), 0);
  assert.equal(placesOf('if (a.b === 2) return run({ c, d });', text), 0);
});

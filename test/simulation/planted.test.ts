/** Planted bugs match the source that they change; planted.long.test.ts runs the simulation for each of them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { PLANTED } from './planted.ts';
import { PLANTED_KINDS, PLANTED_SEEDS } from './planted-kinds.ts';
import { PLANTED_NODES } from './planted-nodes.ts';
import { PLANTED_OVERLAPPING } from './planted-overlapping.ts';
import { placesOf } from './source-place.ts';

const SOURCES = path.join(import.meta.dirname, '../../src');

test('each planted bug finds its place in the source exactly once', () => {
  const changes = Object.entries({ ...PLANTED, ...PLANTED_NODES, ...PLANTED_OVERLAPPING }).flatMap(([name, bug]) =>
    [bug, ...(bug.also ? [bug.also] : [])].map(({ file, find }) => ({ name, file, find })),
  );
  const wrong = changes.filter(
    ({ file, find }) => placesOf(readFileSync(path.join(SOURCES, file), 'utf8'), find) !== 1,
  );
  assert.deepEqual(
    wrong.map(({ name, file }) => `${name}: ${file}`),
    [],
  );
});

test('pinned seeds belong to planted bugs', () => {
  const known = PLANTED_KINDS.flatMap(({ planted }) => Object.keys(planted));
  assert.deepEqual(
    Object.keys(PLANTED_SEEDS).filter((name) => !known.includes(name)),
    [],
  );
});

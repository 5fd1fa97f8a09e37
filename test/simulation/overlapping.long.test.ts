/**
 * Worlds of one to three nodes on a real PostgreSQL server: transactions overlap at every statement, and the primary changes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readKept } from './kept.ts';
import { simulateWell } from './simulate-process.ts';

/** About three seconds of CPU time each. */
const SEEDS = 24;
const FIRST = 1;

test(`simulated worlds ${FIRST} to ${FIRST + SEEDS - 1} with overlapping transactions keep the promises`, async () => {
  const { counts } = await simulateWell(FIRST, SEEDS, '--overlapping');
  const wanted = ['lock wait', 'failover', 'database crash', 'world with 3 nodes'];
  assert.deepEqual(
    wanted.filter((one) => !counts[one]),
    [],
  );
});

test('such a world is the same twice', async () => {
  await simulateWell(50, 1, '--overlapping');
});

const skip = readKept({ nodes: false, overlapping: true }).length === 0 && 'none is kept';
test('worlds with overlapping transactions that are kept are well', { skip }, async () => {
  await simulateWell(1, 0, '--overlapping', '--kept');
});

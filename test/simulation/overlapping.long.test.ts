/**
 * Scenarios of one to three nodes on a real PostgreSQL server: transactions overlap at every statement, and the primary changes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readKept } from './kept-seeds.ts';
import { simulateWell } from './simulate-process.ts';

/**
 * Each scenario takes about ten seconds of CPU time, and several times as long on a busy machine, where every statement waits for its turn
 * to run. Each test simulates few, so that it ends in time.
 */
const WORLDS = 3;
const FIRSTS = [1, 4, 7];
const counts: Record<string, number> = {};

for (const first of FIRSTS) {
  test(`scenarios ${first} to ${first + WORLDS - 1} with overlapping transactions keep the promises`, async () => {
    const sums = await simulateWell(first, WORLDS, '--overlapping');
    for (const [what, count] of Object.entries(sums.counts)) counts[what] = (counts[what] ?? 0) + count;
  });
}

test('transactions overlapped, and the primary changed', () => {
  const wanted = ['lock wait', 'failover', 'database crash', 'world with 3 nodes'];
  assert.deepEqual(
    wanted.filter((one) => !counts[one]),
    [],
  );
});

test('a scenario with overlapping transactions is reproducible', async () => {
  await simulateWell(50, 1, '--overlapping');
});

const skip = readKept({ nodes: false, overlapping: true }).length === 0 && 'none is kept';
test('kept scenarios with overlapping transactions pass', { skip }, async () => {
  await simulateWell(1, 0, '--overlapping', '--kept');
});

/** Worlds of the simulation that are all well, in processes of their own, since they give up their time and their sockets for them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sums } from './seeds.ts';
import { simulateWell } from './simulate-process.ts';

/** About a third of a second of a core each; more of them run in CI. */
const SEEDS = 10;
const seen: Pick<Sums, 'counts' | 'transitions'> = { counts: {}, transitions: {} };

for (const first of [1, 11]) {
  test(`simulated worlds ${first} to ${first + SEEDS - 1} keep the promises`, async () => {
    const { counts, transitions } = await simulateWell(first, SEEDS);
    Object.assign(seen.counts, counts);
    Object.assign(seen.transitions, transitions);
  });
}

test('each kind of fault befell some world, and every change of state was seen', () => {
  const faults = [
    'a kill',
    'a power cut',
    'a planned stop',
    'a connection reset',
    'the answer to a dot lost',
    'greylisted',
  ];
  assert.deepEqual(
    faults.filter((one) => !seen.counts[one]),
    [],
  );
  const changes = [
    '>queued',
    '>scheduled',
    'queued>delayed',
    'queued>delivered',
    'delayed>delivered',
    'delayed>bounced',
  ];
  assert.deepEqual(
    changes.filter((one) => !seen.transitions[one]),
    [],
  );
});

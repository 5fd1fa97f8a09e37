/** Worlds of one to three nodes that share a PostgreSQL database; one of them runs twice, and has to be the same both times. */
import { test } from 'node:test';
import { simulateWell } from './simulate-process.ts';

/** About two seconds of a core each. */
const SEEDS = 6;

for (const first of [1, 46]) {
  test(`simulated worlds ${first} to ${first + SEEDS - 1} of several nodes keep the promises`, async () => {
    await simulateWell(first, SEEDS, '--nodes');
  });
}

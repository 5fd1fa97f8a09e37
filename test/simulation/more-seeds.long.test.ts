/** More worlds of the simulation than the fast tests have time for; one of them runs twice, and has to be the same both times. */
import { test } from 'node:test';
import { simulateWell } from './simulate-process.ts';

const SEEDS = 20;

for (const first of [21, 41, 61, 81]) {
  test(`simulated worlds ${first} to ${first + SEEDS - 1} keep the promises`, async () => {
    await simulateWell(first, SEEDS);
  });
}

/** More worlds of the simulation than the fast tests have time for. */
import { test } from 'node:test';
import { simulateWell } from './simulate-process.ts';

const SEEDS = 90;

for (const first of [51, 141, 231, 321, 411]) {
  test(`simulated worlds ${first} to ${first + SEEDS - 1} keep the promises`, async () => {
    await simulateWell(first, SEEDS);
  });
}

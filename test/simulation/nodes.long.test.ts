/** Scenarios of one to three nodes that share a PostgreSQL database; one of them runs twice, with the same result both times. */
import { test } from 'node:test';
import { simulateWell } from './simulate-process.ts';

/** About two seconds of CPU time each; the database takes five before the first. */
const SEEDS = 12;
const FIRST = 40;

test(`scenarios ${FIRST} to ${FIRST + SEEDS - 1} with several nodes keep the promises`, async () => {
  await simulateWell(FIRST, SEEDS, '--nodes');
});

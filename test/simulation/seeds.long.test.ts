/** Further scenarios that must all succeed, after those of seeds.test.ts. */
import { describe, test } from 'node:test';
import { simulateWell } from './simulate-process.ts';

const PART = 60;
const FIRSTS = [41, 101];

describe('further scenarios keep the promises', { concurrency: 2 }, () => {
  for (const first of FIRSTS) {
    test(`scenarios ${first} to ${first + PART - 1}`, async () => {
      await simulateWell(first, PART);
    });
  }
});

/** Some seed finds each planted bug, and without a bug none fails: this proves what the simulation can detect. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PLANTED_KINDS, seedThatReveals } from './planted-kinds.ts';
import { simulate } from './simulate-process.ts';

describe('each planted bug is found', () => {
  for (const { kind, planted, options } of PLANTED_KINDS)
    for (const name of Object.keys(planted))
      test(`${kind}: ${name}`, async () => {
        const { seed, output } = await seedThatReveals(name, options);
        assert.ok(seed !== undefined, output.slice(-2_000));
      });
});

test('control: without a planted bug no scenario fails', async () => {
  const { sums, output } = await simulate(['--seeds', '25']);
  assert.equal(sums?.failed, 0, output);
});

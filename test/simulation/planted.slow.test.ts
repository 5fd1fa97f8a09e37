/** Some seed finds each planted bug, and without a bug none fails: this proves what the simulation can detect. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PLANTED } from './planted.ts';
import { PLANTED_NODES } from './planted-nodes.ts';
import { PLANTED_OVERLAPPING } from './planted-overlapping.ts';
import { simulate } from './simulate-process.ts';

/** One of the first twenty finds most of them. */
const SEEDS = 2_000;

describe('each planted bug is found', { concurrency: 2 }, () => {
  for (const [name, { seed }] of Object.entries(PLANTED)) {
    test(`found: ${name}`, async () => {
      if (seed && (await simulate(['--seed', String(seed), '--planted', name])).failed.length === 1) return;
      const { failed, output } = await simulate(['--seeds', String(SEEDS), '--planted', name]);
      assert.equal(failed.length, 1, output.slice(-2_000));
    });
  }
  for (const [name, { seed }] of Object.entries(PLANTED_NODES)) {
    test(`found with several nodes: ${name}`, async () => {
      const once = ['--nodes', '--seed', String(seed), '--planted', name];
      if (seed && (await simulate(once)).failed.length === 1) return;
      const { failed, output } = await simulate(['--nodes', '--seeds', String(SEEDS), '--planted', name]);
      assert.equal(failed.length, 1, output.slice(-2_000));
    });
  }
  for (const [name, { seed }] of Object.entries(PLANTED_OVERLAPPING)) {
    test(`found with overlapping transactions: ${name}`, async () => {
      const { failed, output } = await simulate(['--overlapping', '--seed', String(seed), '--planted', name]);
      assert.equal(failed.length, 1, output.slice(-2_000));
    });
  }
});

test('control: a bug that is none is not found', async () => {
  const { sums, output } = await simulate(['--seeds', '25']);
  assert.equal(sums?.failed, 0, output);
});

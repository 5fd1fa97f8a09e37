/** Some seed finds each planted bug, and without a bug none fails: this proves what the simulation can detect. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PLANTED } from './planted.ts';
import { PLANTED_NODES } from './planted-nodes.ts';
import { PLANTED_OVERLAPPING } from './planted-overlapping.ts';
import { simulate } from './simulate-process.ts';

/** One of the first twenty finds most of them. */
const SEEDS = 2_000;

const WORLDS = [
  { kind: 'found', planted: PLANTED, options: [] },
  { kind: 'found with several nodes', planted: PLANTED_NODES, options: ['--nodes'] },
  { kind: 'found with overlapping transactions', planted: PLANTED_OVERLAPPING, options: ['--overlapping'] },
];

describe('each planted bug is found', () => {
  for (const { kind, planted, options } of WORLDS)
    for (const [name, { seed }] of Object.entries(planted))
      test(`${kind}: ${name}`, async () => {
        const bug = [...options, '--planted', name];
        if (seed && (await simulate([...bug, '--seed', String(seed)])).failed.length === 1) return;
        const { failed, output } = await simulate([...bug, '--seeds', String(SEEDS)]);
        assert.equal(failed.length, 1, output.slice(-2_000));
      });
});

test('control: without a planted bug no scenario fails', async () => {
  const { sums, output } = await simulate(['--seeds', '25']);
  assert.equal(sums?.failed, 0, output);
});

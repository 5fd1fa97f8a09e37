/**
 * A scenario finds each planted bug: this proves what the simulation can detect. Long scenarios are shrunk to parts that are enough for the
 * failure, so that each takes little more than the start of its process, and without the bug these must succeed.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PLANTED_KINDS, PLANTED_SEEDS, SHRUNK_STEPS, scenarioThatReveals, worldArgument } from './planted-kinds.ts';
import { simulate } from './simulate-process.ts';

describe('each planted bug is found', () => {
  for (const { kind, planted, options } of PLANTED_KINDS)
    for (const name of Object.keys(planted))
      test(`${kind}: ${name}`, async () => {
        const { found, output } = await scenarioThatReveals(name, { options, shrinks: false });
        assert.ok(found !== undefined, output.slice(-2_000));
      });
});

// Complete scenarios without a bug are those of the other tests.
describe('control: without its bug no shrunk scenario fails', () => {
  for (const { kind, planted, options } of PLANTED_KINDS) {
    const shrunk = Object.keys(planted)
      .map((name) => PLANTED_SEEDS[name])
      .filter((pinned) => pinned?.only !== undefined);
    if (shrunk.length === 0) continue;
    test(kind, async () => {
      const worlds = shrunk.flatMap((pinned) => worldArgument(pinned!));
      const { sums, failed, output } = await simulate([...options, '--all', ...SHRUNK_STEPS, ...worlds]);
      assert.deepEqual(failed, [], output);
      assert.equal(sums?.seeds, shrunk.length, output);
    });
  }
});

/**
 * A scenario finds each planted bug: this proves what the simulation can detect. Long scenarios are shrunk to parts that are enough for the
 * failure, and without the bug these must succeed.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PLANTED_KINDS, PLANTED_SEEDS, SHRUNK_STEPS, scenarioThatReveals, worldArgument } from './planted-kinds.ts';
import { simulate, simulatePlanted } from './simulate-process.ts';

/** Bugs of one process, whose memory grows with each: by 20 MB, and by 150 MB with a PostgreSQL database. */
const BUGS_TOGETHER = 12;
const BUGS_WITH_POSTGRES = 6;

describe('each planted bug is found', () => {
  for (const { kind, planted, options } of PLANTED_KINDS) {
    const names = Object.keys(planted);
    const together = options.length === 0 ? BUGS_TOGETHER : BUGS_WITH_POSTGRES;
    for (let first = 0; first < names.length; first += together) {
      const group = names.slice(first, first + together);
      let revealed: ReturnType<typeof simulatePlanted> | undefined;
      for (const name of group)
        test(`${kind}: ${name}`, async (t) => {
          revealed ??= simulatePlanted(group, options);
          const { found, output } = await revealed;
          if (found.has(name)) return;
          t.diagnostic(`Its pinned scenario is outdated: node test/simulation/pin-seeds.ts '${name}'`);
          t.diagnostic(output.slice(-2_000));
          const searched = await scenarioThatReveals(name, { options, shrinks: false });
          assert.ok(searched.found !== undefined, searched.output.slice(-2_000));
        });
    }
  }
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
      const { sums, failed, output } = await simulate([
        ...options,
        '--all',
        '--steps',
        String(SHRUNK_STEPS),
        ...worlds,
      ]);
      assert.deepEqual(failed, [], output);
      assert.equal(sums?.seeds, shrunk.length, output);
    });
  }
});

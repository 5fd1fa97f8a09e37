/**
 * Pins a seed for each planted bug: `node test/simulation/pin-seeds.ts`. Bugs whose pinned seed still reveals them keep it; for the others
 * it searches, on all cores, and writes planted-seeds.json. Run it after changes that make planted.long.test.ts slow.
 */
import { writeFileSync } from 'node:fs';
import os from 'node:os';
import { PLANTED_KINDS, PLANTED_SEEDS, SEEDS_FILE, seedThatReveals } from './planted-kinds.ts';

const seeds: Record<string, number | undefined> = {};
const waiting = PLANTED_KINDS.flatMap(({ planted, options }) =>
  Object.keys(planted).map((name) => ({ name, options })),
);
// In the order of the bugs, whatever the order of results.
for (const { name } of waiting) seeds[name] = PLANTED_SEEDS[name];

function write(): void {
  writeFileSync(SEEDS_FILE, `${JSON.stringify(seeds, undefined, 2)}\n`);
}

async function pinNext(): Promise<void> {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { name, options } = next;
    const { seed } = await seedThatReveals(name, options);
    if (seed === PLANTED_SEEDS[name]) continue;
    seeds[name] = seed;
    console.log(`${name}: ${PLANTED_SEEDS[name] ?? 'none'} → ${seed ?? 'not found'}`);
    write();
  }
}

await Promise.all(Array.from({ length: os.availableParallelism() }, pinNext));
write();

/**
 * Pins a scenario for each planted bug, or for those named: `node test/simulation/pin-seeds.ts [NAME…]`. Bugs whose pinned scenario still reveals them keep it; for the
 * others it searches, on all cores, shrinks what it finds, and writes planted-seeds.json. Run it after changes that make
 * planted.long.test.ts slow.
 */
import { writeFileSync } from 'node:fs';
import os from 'node:os';
import { type Pinned, PLANTED_KINDS, PLANTED_SEEDS, SEEDS_FILE, scenarioThatReveals } from './planted-kinds.ts';

const seeds: Record<string, Pinned | undefined> = {};
const bugs = PLANTED_KINDS.flatMap(({ planted, options }) => Object.keys(planted).map((name) => ({ name, options })));
const named = process.argv.slice(2);
const waiting = named.length === 0 ? bugs : bugs.filter(({ name }) => named.includes(name));
// In the order of the bugs, whatever the order of results.
for (const { name } of bugs) seeds[name] = PLANTED_SEEDS[name];

function write(): void {
  writeFileSync(SEEDS_FILE, `${JSON.stringify(seeds, undefined, 2)}\n`);
}

async function pinNext(): Promise<void> {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { name, options } = next;
    const pinned = PLANTED_SEEDS[name];
    const { found } = await scenarioThatReveals(name, { options, shrinks: true });
    if (found && found.seed === pinned?.seed && found.only === pinned.only) continue;
    seeds[name] = found;
    console.log(`${name}: ${pinned?.seed ?? 'none'} → ${found?.seed ?? 'not found'}`);
    write();
  }
}

await Promise.all(Array.from({ length: os.availableParallelism() }, pinNext));
write();

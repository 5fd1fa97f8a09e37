/**
 * A process that simulates some scenarios, one after another; command.ts starts several of them. Its output is lines of JSON: `{ failed }`
 * for each failing scenario, `{ progress }` periodically, and `{ sums }` at the end.
 *
 *   --seeds N     number of scenarios (default 1)        --seed S      the first seed (default 1)
 *   --only X      only these parts, comma-separated       --planted B   plant a bug of planted.ts
 *   --world S:X   instead, one scenario by its seed and its parts, if not all; can be repeated
 *   --trace       every step as a line of text            --kept        first run the kept seeds too
 *   --shrink N    shrink failing scenarios to N steps    --all         continue after a failure
 *   --steps N     a scenario that did not end by then has failed
 *   --nodes       scenarios of one to three nodes that share a PostgreSQL database
 *   --overlapping the same, with transactions that overlap and a primary that changes
 */
import './globals.ts';
import './simulated-io.ts';
import './disk.ts';
import 'undici';
import { parseArgs } from 'node:util';
import { readKept } from './kept-seeds.ts';
import { makeLimitsSmall, plant } from './planted.ts';
import type { World } from './seeds.ts';
import type { Failed, Sums } from './sums.ts';
import { writeLine } from './write-output.ts';

export type Line = { failed: Failed } | { progress: Sums } | { sums: Sums };

const PROGRESS_EVERY = 10;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    world: { type: 'string', multiple: true },
    planted: { type: 'string' },
    trace: { type: 'boolean', default: false },
    shrink: { type: 'string', default: 'Infinity' },
    steps: { type: 'string' },
    all: { type: 'boolean', default: false },
    kept: { type: 'boolean', default: false },
    nodes: { type: 'boolean', default: false },
    overlapping: { type: 'boolean', default: false },
  },
});
const finds = values.planted === undefined ? /./ : plant(values.planted).finds;
makeLimitsSmall();

// Loaded after time, sockets and threads are replaced, and a bug is planted.
const { runSeeds } = await import('./seeds.ts');

const say = (line: Line): void => writeLine(JSON.stringify(line));
const only = values.only?.split(',');

const { overlapping } = values;
const kind = { nodes: values.nodes && !overlapping, overlapping };

function worldOf(text: string): World {
  const [seed, parts] = text.split(':');
  return { seed: Number(seed), ...(parts !== undefined && { only: parts.split(',') }) };
}

function* worlds(): Iterable<World> {
  if (values.kept) for (const one of readKept(kind)) yield { seed: Number(one.seed), only: one.only };
  if (values.world) return yield* values.world.map(worldOf);
  const first = Number(values.seed);
  for (let seed = first; seed < first + Number(values.seeds); seed += 1) yield { seed, ...(only && { only }) };
}

const sums = await runSeeds({
  worlds: worlds(),
  ...(values.steps !== undefined && { mostSteps: Number(values.steps) }),
  shrinkToSteps: Number(values.shrink),
  finds,
  ...kind,
  ...(values.trace && { onStep: writeLine }),
  onFailed: ({ seed, parts, isComplete, faults, trace }) => {
    say({ failed: { seed, parts, isComplete, faults: faults.slice(0, 10), trace } });
    return values.all;
  },
  onProgress: (progress) => {
    if (progress.seeds % PROGRESS_EVERY === 0) say({ progress });
  },
});
say({ sums });
process.exitCode = sums.failed > 0 ? 1 : 0;

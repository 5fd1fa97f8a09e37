/**
 * A process that runs the pinned scenarios of the planted bugs named in its arguments, one after another, each with its own copy of the
 * product: most of the time of such a short scenario would otherwise be the start of its process. Its output is a line of JSON for each bug:
 * `{ name, faults }`, with the faults that reveal the bug.
 *
 *   --nodes       scenarios of one to three nodes that share a PostgreSQL database
 *   --overlapping the same, with transactions that overlap and a primary that changes
 */
import './globals.ts';
import './simulated-io.ts';
import './disk.ts';
import 'undici';
import { parseArgs } from 'node:util';
import { importCopy } from './module-copies.ts';
import { makeLimitsSmall, plant } from './planted.ts';
import { type Pinned, PLANTED_SEEDS, SHRUNK_STEPS } from './planted-kinds.ts';
import { writeLine } from './write-output.ts';

export interface Revealed {
  name: string;
  /** Empty if the pinned scenario does not reveal the bug. */
  faults: string[];
}

/** The modules above and what they import: they replace parts of Node for all copies. */
const SHARED = new Set(
  'certificates disk globals key-pairs network random replaced-functions simulated-io timeline tls torn-writes'
    .split(' ')
    .map((name) => new URL(`${name}.ts`, import.meta.url).href),
);

const { values, positionals } = parseArgs({
  options: { nodes: { type: 'boolean', default: false }, overlapping: { type: 'boolean', default: false } },
  allowPositionals: true,
});

async function revealed(name: string, { seed, only }: Pinned): Promise<Revealed> {
  const { finds, remove } = plant(name);
  const url = new URL('seeds.ts', import.meta.url).href;
  const { copy, end } = await importCopy<typeof import('./seeds.ts')>(url, SHARED);
  const faults: string[] = [];
  await copy.runSeeds({
    worlds: [only === undefined ? { seed } : { seed, only: only.split(',') }],
    ...values,
    ...(only !== undefined && { mostSteps: SHRUNK_STEPS }),
    shrinkToSteps: Number.POSITIVE_INFINITY,
    finds,
    onFailed: (failed) => {
      faults.push(...failed.faults.slice(0, 10));
      return false;
    },
    onProgress: () => undefined,
  });
  end();
  remove();
  return { name, faults };
}

makeLimitsSmall();
for (const name of positionals) {
  const pinned = PLANTED_SEEDS[name];
  const result = pinned === undefined ? { name, faults: [] } : await revealed(name, pinned);
  writeLine(JSON.stringify(result));
}

/** All planted bugs by the kind of scenario that reveals them, and the scenarios that revealed them, which are tried first. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { onlyOf } from './kept-seeds.ts';
import { PLANTED } from './planted.ts';
import { PLANTED_NODES } from './planted-nodes.ts';
import { PLANTED_OVERLAPPING } from './planted-overlapping.ts';
import { simulate } from './simulate-process.ts';

export const PLANTED_KINDS = [
  { kind: 'found', planted: PLANTED, options: [] },
  { kind: 'found with several nodes', planted: PLANTED_NODES, options: ['--nodes'] },
  { kind: 'found with overlapping transactions', planted: PLANTED_OVERLAPPING, options: ['--overlapping'] },
];

export const SEEDS_FILE = path.join(import.meta.dirname, 'planted-seeds.json');

/** A scenario that reveals a bug: its seed, and, of a larger one, the parts that are enough for the failure, comma-separated. */
export interface Pinned {
  seed: number;
  only?: string;
}

/** A change of the service can move the scenarios of all seeds; pin-seeds.ts then searches again. */
export const PLANTED_SEEDS: Readonly<Record<string, Pinned>> = JSON.parse(readFileSync(SEEDS_FILE, 'utf8'));

/** Maximum number of seeds that are tried; one of the first twenty reveals most bugs. */
const SEEDS = 2_000;

/** A scenario with more steps is shrunk before it is pinned; this many take about half a second of CPU time. */
const FEW_STEPS = 4_000;

/** More than a shrunk scenario needs to end: one that a bug keeps from ending, which most steps are spent on, fails then. */
export const SHRUNK_STEPS = 60_000;

/** The arguments of simulate.ts that run only this scenario. */
export const worldArgument = ({ seed, only }: Pinned): string[] => [
  '--world',
  only === undefined ? String(seed) : `${seed}:${only}`,
];

/**
 * Returns a scenario that reveals the bug: the pinned one if it still does, else the complete scenario of its seed, else that of the first
 * seed that does; these are shrunk on request. Undefined with the output if there is none.
 */
export async function scenarioThatReveals(
  name: string,
  { options, shrinks }: { options: readonly string[]; shrinks: boolean },
): Promise<{ found: Pinned | undefined; output: string }> {
  const pinned = PLANTED_SEEDS[name];
  const scenarios = [
    ...(pinned
      ? [[...worldArgument(pinned), ...(pinned.only === undefined ? [] : ['--steps', String(SHRUNK_STEPS)])]]
      : []),
    ...(pinned?.only === undefined ? [] : [['--seed', String(pinned.seed)]]),
    ['--seeds', String(SEEDS)],
  ];
  const more = shrinks ? ['--shrink', String(FEW_STEPS)] : [];
  let output = '';
  for (const scenario of scenarios) {
    const ran = await simulate([...options, '--planted', name, ...more, ...scenario]);
    const [failed] = ran.failed;
    output = ran.output;
    if (!failed) continue;
    const seed = Number(failed.seed);
    return { found: failed.isComplete ? { seed } : { seed, only: onlyOf(failed.parts) }, output };
  }
  return { found: undefined, output };
}

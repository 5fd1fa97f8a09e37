/** All planted bugs by the kind of scenario that reveals them, and the seeds that revealed them, which are tried first. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
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

/** A change of the service can move the scenarios of all seeds; pin-seeds.ts then searches again. */
export const PLANTED_SEEDS: Readonly<Record<string, number>> = JSON.parse(readFileSync(SEEDS_FILE, 'utf8'));

/** Maximum number of seeds that are tried; one of the first twenty reveals most bugs. */
const SEEDS = 2_000;

/** Returns a seed that reveals the bug, the pinned one if it still does; undefined with the output if none does. */
export async function seedThatReveals(
  name: string,
  options: readonly string[],
): Promise<{ seed: number | undefined; output: string }> {
  const bug = [...options, '--planted', name];
  const pinned = PLANTED_SEEDS[name];
  if (pinned !== undefined) {
    const { failed, output } = await simulate([...bug, '--seed', String(pinned)]);
    if (failed.length === 1) return { seed: pinned, output };
  }
  const { failed, output } = await simulate([...bug, '--seeds', String(SEEDS)]);
  return { seed: failed[0] && Number(failed[0].seed), output };
}

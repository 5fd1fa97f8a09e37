/** Runs the command of the simulation in a process of its own, and reads what it says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import type { Sums } from './seeds.ts';

const COMMAND = path.join(import.meta.dirname, 'simulate.ts');

interface Ran {
  /** Undefined where it broke off. */
  sums: (Sums & { failed: number; cpuMs: number }) | undefined;
  output: string;
}

export function simulate(args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 64 * 1024 * 1024, env: { ...process.env, NODE_TEST_CONTEXT: undefined } };
    execFile(process.execPath, [COMMAND, '--json', ...args], options, (_error, stdout, stderr) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? '';
      const sums = last.startsWith('{') ? (JSON.parse(last) as Ran['sums']) : undefined;
      resolve({ sums, output: `${stdout}${stderr}` });
    });
  });
}

/** Simulates so many worlds from this seed on, which all have to be well; each fiftieth seed runs twice. */
export async function simulateWell(first: number, seeds: number): Promise<Sums> {
  const { sums, output } = await simulate(['--seed', String(first), '--seeds', String(seeds)]);
  const last = first + seeds - 1;
  const twice = Math.floor(last / 50) - Math.floor((first - 1) / 50);
  assert.deepEqual([sums?.seeds, sums?.failed, sums?.twice], [seeds, 0, twice], output);
  return sums!;
}

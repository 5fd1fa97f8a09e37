/** Starts a process that simulates (simulate.ts), and reads its output. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { readKept } from './kept-seeds.ts';
import type { Line } from './simulate.ts';
import type { Revealed } from './simulate-planted.ts';
import type { Failed, Sums } from './sums.ts';

const PROCESS = path.join(import.meta.dirname, 'simulate.ts');
const PLANTED_PROCESS = path.join(import.meta.dirname, 'simulate-planted.ts');

export interface Listening {
  /** A folder for V8's coverage of the branches it reaches. */
  coverage?: string;
  /** Called with each failing scenario. */
  onFailed?(failed: Failed): void;
  onProgress?(sums: Sums): void;
  /** Called with the steps of a traced scenario, and with unexpected output. */
  onText?(line: string): void;
}

export interface Ran {
  /** Undefined if it was aborted. */
  sums: Sums | undefined;
  isKilled: boolean;
  failed: Failed[];
  /** Other output. */
  output: string;
}

function startProcess(file: string, args: readonly string[], variables: NodeJS.ProcessEnv = {}): ChildProcess {
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, ...variables };
  return spawn(process.execPath, [file, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
}

export function startSimulation(args: readonly string[], listening: Listening = {}) {
  const { coverage } = listening;
  const child = startProcess(PROCESS, args, coverage === undefined ? {} : { NODE_V8_COVERAGE: coverage });
  const ran: Ran = { sums: undefined, isKilled: false, failed: [], output: '' };
  const heard = (text: string): void => {
    ran.output += `${text}\n`;
    listening.onText?.(text);
  };
  const said = (line: Line): void => {
    if ('failed' in line) {
      ran.failed.push(line.failed);
      listening.onFailed?.(line.failed);
    } else if ('progress' in line) listening.onProgress?.(line.progress);
    else ran.sums = line.sums;
  };
  createInterface(child.stdout!).on('line', (text) =>
    text.startsWith('{') ? said(JSON.parse(text) as Line) : heard(text),
  );
  createInterface(child.stderr!).on('line', heard);
  const ended = new Promise<Ran>((resolve) => child.once('close', () => resolve(ran)));
  const kill = (): void => {
    ran.isKilled = true;
    child.kill();
  };
  return { ended, kill };
}

/** Runs the pinned scenarios of planted bugs in one process; returns the names of those that were found, and its other output. */
export async function simulatePlanted(
  names: readonly string[],
  options: readonly string[],
): Promise<{ found: Set<string>; output: string }> {
  const found = new Set<string>();
  const lines: string[] = [];
  const child = startProcess(PLANTED_PROCESS, [...options, ...names]);
  createInterface(child.stdout!).on('line', (text) => {
    if (!text.startsWith('{')) return void lines.push(text);
    const { name, faults } = JSON.parse(text) as Revealed;
    if (faults.length > 0) found.add(name);
  });
  createInterface(child.stderr!).on('line', (text) => lines.push(text));
  await once(child, 'close');
  return { found, output: lines.join('\n') };
}

export const simulate = (args: readonly string[]): Promise<Ran> => startSimulation(args).ended;

/** Simulates this many scenarios from this seed on, which must all succeed; every fiftieth seed runs twice. */
export async function simulateWell(
  first: number,
  seeds: number,
  ...more: ('--kept' | '--nodes' | '--overlapping')[]
): Promise<Sums> {
  const { sums, failed, output } = await simulate(['--seed', String(first), '--seeds', String(seeds), ...more]);
  assert.deepEqual(failed, [], output);
  const kept = more.includes('--kept')
    ? readKept({ nodes: more.includes('--nodes'), overlapping: more.includes('--overlapping') })
    : [];
  const worlds = [...kept.map(({ seed }) => Number(seed)), ...Array.from({ length: seeds }, (_, at) => first + at)];
  assert.equal(sums?.seeds, worlds.length, output);
  assert.equal(sums.twice, worlds.filter((seed) => seed % 50 === 0).length);
  return sums;
}

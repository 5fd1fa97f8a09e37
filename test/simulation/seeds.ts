/** Runs worlds one after the other in this process, each fiftieth twice, and adds up what was seen. */
import os from 'node:os';
import { Disk } from './disk.ts';
import { createDns } from './dns.ts';
import { enterWorld } from './globals.ts';
import { Network } from './network.ts';
import { seededRandom } from './random.ts';
import { makeTemplate, type Template } from './template.ts';
import { SimulatedThreads } from './threads.ts';
import { settled, Timeline } from './timeline.ts';
import { type Report, runSeed } from './world.ts';

const TWICE_EVERY = 50;
/** A folder in memory, where Linux has it: nothing of a world is to outlive it. */
const SCRATCH = process.platform === 'linux' ? '/dev/shm' : os.tmpdir();

export interface SeedsOptions {
  first: number;
  seeds: number;
  onStep?: (line: string) => void;
  /** Called with each world; answers whether to go on. */
  onReport(report: Report): boolean;
}

export interface Sums {
  seeds: number;
  twice: number;
  steps: number;
  simulatedMs: number;
  counts: Record<string, number>;
  transitions: Record<string, number>;
}

function add(into: Record<string, number>, from: Record<string, number>): void {
  for (const [name, count] of Object.entries(from)) into[name] = (into[name] ?? 0) + count;
}

/** In a world of its own, without faults. */
async function templateOf(): Promise<Template> {
  const random = seededRandom('template');
  const timeline = new Timeline(random);
  const network = new Network(timeline, { random, faults: { resets: 0, silences: 0, blackHoles: 0 } });
  const dns = createDns(timeline, { random, faults: { lost: 0, failed: 0 } });
  const disk = new Disk(timeline, random);
  const count = (): void => undefined;
  const threads = new SimulatedThreads(timeline, { random, faults: { refused: 0, lost: 0 }, count });
  enterWorld({ timeline, startMs: Date.UTC(2026, 10, 23, 8), setMs: 0, random, network, dns, disk, threads });
  let isMade = false;
  const making = makeTemplate(SCRATCH).finally(() => {
    isMade = true;
  });
  while (!isMade) if (!(await timeline.step())) await settled();
  return making;
}

export async function runSeeds({ first, seeds, onStep, onReport }: SeedsOptions): Promise<Sums> {
  // What is thrown here by the thousand, and caught, needs no long story.
  Error.stackTraceLimit = 8;
  const template = await templateOf();
  const sums: Sums = { seeds: 0, twice: 0, steps: 0, simulatedMs: 0, counts: {}, transitions: {} };
  const options = { template, folder: template.folder, ...(onStep && { onStep }) };
  for (let seed = first; seed < first + seeds; seed += 1) {
    const report = await runSeed(String(seed), options);
    if (seed % TWICE_EVERY === 0) {
      sums.twice += 1;
      const again = await runSeed(String(seed), options);
      if (again.trace !== report.trace) report.faults.push(`not the same twice: ${report.trace} and ${again.trace}`);
    }
    sums.seeds += 1;
    sums.steps += report.steps;
    sums.simulatedMs += report.simulatedMs;
    add(sums.counts, report.counts);
    add(sums.transitions, report.transitions);
    if (!onReport(report)) break;
  }
  return sums;
}

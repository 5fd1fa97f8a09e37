/** Runs scenarios one after another in this process, every fiftieth twice, shrinks failing ones, and sums up what was seen. */
import os from 'node:os';
import { Disk } from './disk.ts';
import { createDns } from './dns.ts';
import { enterWorld } from './globals.ts';
import { Network } from './network.ts';
import { OverlappingEngine } from './overlapping-engine.ts';
import { PostgresEngine } from './postgres-engine.ts';
import { seededRandom } from './random.ts';
import { kindOf, shrink } from './shrink.ts';
import { addTo, type Failed, noSums, type Sums } from './sums.ts';
import { makeTemplate, type Template } from './template.ts';
import { SimulatedThreads } from './threads.ts';
import { settled, Timeline } from './timeline.ts';
import { type Report, type RunOptions, runSeed } from './world.ts';

const TWICE_EVERY = 50;
/** A folder in memory on Linux: files of a scenario are temporary. */
const SCRATCH = process.platform === 'linux' ? '/dev/shm' : os.tmpdir();

export interface World {
  seed: number;
  /** Names of the parts to keep; all of them by default. */
  only?: readonly string[];
}

export interface SeedsOptions {
  worlds: Iterable<World>;
  /** Scenarios of one to three nodes that share a PostgreSQL database. */
  nodes: boolean;
  /** Whether that is a server whose transactions overlap, and whose primary changes. */
  overlapping: boolean;
  /** Steps after which a scenario that did not end has failed, if not the usual number. */
  mostSteps?: number;
  /** Failing scenarios with more steps are shrunk until they have at most this many, or nothing else can be removed. */
  shrinkToSteps: number;
  /** The failures to look for; scenarios without one of these count as failed, but are not reported. */
  finds: RegExp;
  onStep?: (line: string) => void;
  /** Called with each failing scenario; returns whether to continue. */
  onFailed(failed: Failed): boolean;
  /** Called after each scenario. */
  onProgress(sums: Sums): void;
}

/** Created in a separate scenario without faults. */
async function templateOf({ nodes, overlapping }: Pick<SeedsOptions, 'nodes' | 'overlapping'>): Promise<Template> {
  const engine = overlapping ? new OverlappingEngine() : nodes ? await PostgresEngine.start() : undefined;
  const random = seededRandom('template');
  const timeline = new Timeline(random);
  const network = new Network(timeline, { random, faults: { resets: 0, silences: 0, blackHoles: 0 } });
  const dns = createDns(timeline, { random, faults: { lost: 0, failed: 0 } });
  const disk = new Disk(timeline, random);
  const count = (): void => undefined;
  const threads = new SimulatedThreads(timeline, { random, faults: { refused: 0, lost: 0 }, count });
  enterWorld({ timeline, startMs: Date.UTC(2026, 10, 23, 8), setMs: 0, random, network, dns, disk, threads });
  let isMade = false;
  const making = makeTemplate(SCRATCH, engine).finally(() => {
    isMade = true;
  });
  while (!isMade) if (!(await timeline.step())) await settled();
  return making;
}

const NOT_TWICE = 'not the same twice';

async function runTwice(seed: number, options: RunOptions): Promise<Report> {
  const report = await runSeed(String(seed), options);
  const again = await runSeed(String(seed), options);
  if (again.trace !== report.trace) report.faults.push(`${NOT_TWICE}: ${report.trace} and ${again.trace}`);
  const own = new Set(again.faults);
  const others = report.faults.filter((one) => !one.startsWith(NOT_TWICE) && !own.delete(one));
  for (const one of [...others, ...own]) report.faults.push(`${NOT_TWICE}, and once alone: ${one}`);
  return report;
}

/** Returns the same failure in a smaller scenario. */
async function shrunk(
  report: Report,
  isSame: (fault: string) => boolean,
  toSteps: number,
  options: RunOptions,
): Promise<Failed> {
  const { seed } = report;
  let smallest = report;
  const fails = async (only: readonly string[]): Promise<readonly string[] | undefined> => {
    const next = await runSeed(seed, { ...options, only });
    if (!next.faults.some(isSame)) return undefined;
    smallest = next;
    return next.parts;
  };
  await shrink(report.parts, fails, () => smallest.steps <= toSteps);
  return { ...smallest, isComplete: smallest === report && options.only === undefined };
}

export async function runSeeds(options: SeedsOptions): Promise<Sums> {
  const { worlds, mostSteps, shrinkToSteps, finds, onStep, onFailed, onProgress } = options;
  // Thousands of errors are thrown and caught here: long stack traces only when tracing.
  Error.stackTraceLimit = onStep ? 8 : 1;
  const template = await templateOf(options);
  const sums = noSums();
  for (const { seed, only } of worlds) {
    const run = {
      template,
      folder: template.folder,
      ...(only && { only }),
      ...(mostSteps && { mostSteps }),
      ...(onStep && { onStep }),
    };
    const isTwice = seed % TWICE_EVERY === 0;
    const cpu = process.cpuUsage();
    const report = isTwice ? await runTwice(seed, run) : await runSeed(String(seed), run);
    const { user, system } = process.cpuUsage(cpu);
    const { steps, simulatedMs, counts, transitions, faults } = report;
    const failed = faults.length > 0 ? 1 : 0;
    const cpuMs = (user + system) / 1000;
    addTo(sums, { seeds: 1, failed, twice: isTwice ? 1 : 0, steps, simulatedMs, cpuMs, counts, transitions });
    onProgress(sums);
    const fault = faults.find((one) => finds.test(one));
    if (fault === undefined) continue;
    const kind = kindOf(fault);
    const isSame = (one: string): boolean => kindOf(one) === kind && finds.test(one);
    const toSteps = fault.startsWith(NOT_TWICE) ? Number.POSITIVE_INFINITY : shrinkToSteps;
    if (!onFailed(await shrunk(report, isSame, toSteps, run))) break;
  }
  return sums;
}

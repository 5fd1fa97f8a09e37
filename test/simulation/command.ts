/**
 * The simulation as a command: `npm run simulate -- --seeds 100000`. Runs scenarios on all cores, shrinks a failing one, keeps it in the
 * tree, and prints the command that repeats it, and finally what was seen. Exits with 1 if a scenario failed.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { inWords as branchesInWords, type Reached, readCoverage } from './coverage.ts';
import { keep, onlyOf } from './kept-seeds.ts';
import { startSimulation } from './simulate-process.ts';
import { unseen } from './states.ts';
import { add, type Failed, noSums, type Sums } from './sums.ts';

const YEAR_MS = 365.25 * 86_400_000;
const PROGRESS_MS = 10_000;
/** A process takes a second to start, and keeps some memory for each scenario. */
const SEEDS_OF_PROCESS = { least: 10, most: 1_000 };
/** Used if the time limit determines the number of scenarios: a started process runs to its end. */
const SEEDS_OF_HOURS = 100;
/** More seeds than a day has time for. */
const SEEDS_OF_DAY = 1_000_000;
const SOURCES = path.join(import.meta.dirname, '../../src');
/** Folders whose branches are counted. */
const COUNTED = ['delivery', 'webhooks', 'send'];

const USAGE = `Usage: npm run simulate -- [options]

Simulates worlds on all cores. A failing world is shrunk, kept, and printed with the command that repeats it.

  --seeds N      number of worlds (default 1)
  --seed S       the first seed (default 1)
  --hours N      run for this time instead, also after failures, by default from a seed of the day on,
                 and print the branches reached
  --all          continue after a failure
  --nodes        worlds of one to three nodes that share a PostgreSQL database
  --overlapping  the same, with transactions that overlap and a primary that changes
  --only X       only these parts of a world, comma-separated
  --planted B    plant a bug of planted.ts; its worlds are not kept
  --keep FOLDER  keep failing worlds in this folder
  --trace        print every step of one world
  --json         print the sums as JSON
  --help         print this text`;

function readOptions() {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '1' },
      seed: { type: 'string' },
      hours: { type: 'string' },
      only: { type: 'string' },
      planted: { type: 'string' },
      keep: { type: 'string' },
      all: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      nodes: { type: 'boolean', default: false },
      overlapping: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  for (const name of ['seeds', 'hours'] as const) {
    const value = values[name];
    if (value !== undefined && !(Number(value) > 0))
      throw new Error(`--${name} must be a positive number, not ${value}`);
  }
  if (values.seed !== undefined && !/^\d+$/.test(values.seed))
    throw new Error(`--seed must be a whole number, not ${values.seed}`);
  return values;
}

/** Returns the options; exits with 2 if one is invalid, and with 0 after the help. */
function optionsOrExit(): ReturnType<typeof readOptions> {
  try {
    const values = readOptions();
    if (!values.help) return values;
    console.log(USAGE);
    process.exit(0);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(2);
  }
}

const values = optionsOrExit();
const hours = values.hours === undefined ? undefined : Number(values.hours);
const seeds = hours === undefined ? Number(values.seeds) : SEEDS_OF_DAY;
const first = Number(values.seed ?? (hours === undefined ? 1 : firstOfDay(new Date())));
const goesOn = values.all || hours !== undefined;
const { planted, overlapping } = values;
const kind = { nodes: values.nodes && !overlapping, overlapping };
const cores = os.availableParallelism();
const startedMs = performance.now();
/** Sums of each process. */
const soFar: Sums[] = [];
const running = new Set<{ kill(): void }>();
const kept: string[] = [];
const coverage = hours === undefined ? undefined : mkdtempSync(path.join(os.tmpdir(), 'postrider-branches-'));
let isStopped = false;
let broken = 0;
let failed = 0;

const passedOn = [
  ...(planted === undefined ? [] : ['--planted', planted]),
  // A scenario that was already shrunk is not shrunk again.
  ...(values.only === undefined ? ['--shrink', '0'] : ['--only', values.only]),
  ...(goesOn ? ['--all'] : []),
  ...(values.trace ? ['--trace'] : []),
  ...(values.overlapping ? ['--overlapping'] : values.nodes ? ['--nodes'] : []),
];

function onFailed(failed: Failed): void {
  const { seed, faults, parts, trace } = failed;
  console.log(`seed ${seed} (trace ${trace}):\n  ${faults.join('\n  ')}`);
  const isKept = values.only === undefined && (planted === undefined || values.keep !== undefined);
  if (isKept) kept.push(keep(failed, { planted, ...kind, folder: values.keep }));
  if (isKept) console.log(`  kept in ${kept.at(-1)}`);
  const bug = planted === undefined ? '' : ` --planted '${planted}'`;
  const nodes = overlapping ? '--overlapping ' : values.nodes ? '--nodes ' : '';
  console.log(`  repeat it with: npm run simulate -- ${nodes}--seed ${seed} --only ${onlyOf(parts)}${bug}`);
  if (!goesOn) stop();
}

function stop(): void {
  isStopped = true;
  for (const one of running) one.kill();
}

/** For example 20261127000000 on 27 November 2026. */
function firstOfDay(day: Date): number {
  return Number(day.toISOString().slice(0, 10).replaceAll('-', '')) * SEEDS_OF_DAY;
}

const isOver = (): boolean => hours !== undefined && performance.now() - startedMs > hours * 3_600_000;

/** Runs one process after another with the next seeds. */
async function runNext(left: Iterator<{ seed: number; count: number }>): Promise<void> {
  for (let next = left.next(); !next.done && !isStopped && !isOver(); next = left.next()) {
    const { seed, count } = next.value;
    const at = soFar.push(noSums()) - 1;
    const simulation = startSimulation([...passedOn, '--seed', String(seed), '--seeds', String(count)], {
      ...(coverage && { coverage }),
      onFailed,
      onProgress: (sums) => {
        soFar[at] = sums;
      },
      onText: (line) => console.log(line),
    });
    running.add(simulation);
    const { sums, isKilled, failed: found } = await simulation.ended;
    running.delete(simulation);
    failed += found.length;
    if (sums) soFar[at] = sums;
    else if (!isKilled) broken += 1;
  }
}

function* pieces(): Generator<{ seed: number; count: number }> {
  const { least, most } = SEEDS_OF_PROCESS;
  const size = hours === undefined ? Math.min(most, Math.max(least, Math.ceil(seeds / cores))) : SEEDS_OF_HOURS;
  const end = first + seeds;
  for (let seed = first; seed < end; seed += size) yield { seed, count: Math.min(size, end - seed) };
}

// Prints the sums so far.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
const showing = setInterval(() => console.error(inWords(add(soFar))), PROGRESS_MS);
const left = pieces();
await Promise.all(Array.from({ length: cores }, () => runNext(left)));
clearInterval(showing);
const sums = add(soFar);
const reached =
  coverage === undefined ? undefined : readCoverage({ folder: coverage, sources: SOURCES, counted: COUNTED });
if (coverage) rmSync(coverage, { recursive: true, force: true });
console.log(
  values.json
    ? JSON.stringify({ ...sums, failed, unseen: unseen(sums.transitions), kept, reached })
    : words({ ...sums, failed }, reached),
);
if (broken > 0) console.error(`${broken} processes broke off`);
process.exitCode = failed + broken > 0 ? 1 : 0;

function inWords({ seeds: done, failed: bad, twice, steps, simulatedMs }: Sums): string {
  const years = (simulatedMs / YEAR_MS).toFixed(2);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  const all = hours === undefined ? `${done} of ${seeds} seeds` : `${done} seeds from ${first} on`;
  return `${all}, ${bad} with faults, ${twice} run twice; ${years} simulated years in ${steps} steps, ${seconds} s`;
}

function words(of: Sums, reached: Reached | undefined): string {
  const list = (counts: Record<string, number>): string =>
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `  ${String(count).padStart(8)}  ${name}`)
      .join('\n');
  const never = unseen(of.transitions);
  return [
    `${inWords(of)}, ${of.seeds === 0 ? 0 : Math.round(of.cpuMs / (of.seeds + of.twice))} ms of a core each`,
    `seen:\n${list(of.counts)}`,
    `status transitions:\n${list(of.transitions)}`,
    `never seen: statuses ${never.states.join(', ') || 'none'}; transitions ${never.transitions.join(', ') || 'none'}`,
    ...(reached ? [branchesInWords(reached)] : []),
    ...(kept.length > 0 ? [`kept: ${kept.join(', ')}`] : []),
  ].join('\n');
}

/**
 * The simulation as a command: `npm run simulate -- --seeds 100000`. Runs worlds on all cores, makes one with a fault smaller, keeps it in
 * the tree, and prints the command that repeats it; in the end what was seen. Exits with 1 where there was a fault.
 *
 *   --seeds N     so many worlds, one unless given        --seed S      the first of them, 1 unless given
 *   --all         goes on after a fault                   --trace       every step, for one world
 *   --only X      nothing but these parts of a world      --planted B   with a bug of planted.ts; its worlds are not kept
 *   --json        the sums as JSON                        --keep F      keeps worlds in this folder
 *   --nodes       worlds of one to three nodes that share a PostgreSQL database
 */
import os from 'node:os';
import { parseArgs } from 'node:util';
import { keep, onlyOf } from './kept.ts';
import { startSimulation } from './simulate-process.ts';
import { unseen } from './states.ts';
import { add, type Failed, noSums, type Sums } from './sums.ts';

const YEAR_MS = 365.25 * 86_400_000;
const PROGRESS_MS = 10_000;
/** A process of its own takes a second to start, and keeps a little of each world. */
const SEEDS_OF_PROCESS = { least: 10, most: 1_000 };

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    planted: { type: 'string' },
    keep: { type: 'string' },
    all: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    nodes: { type: 'boolean', default: false },
  },
});
const seeds = Number(values.seeds);
const { planted } = values;
const cores = os.availableParallelism();
const startedMs = performance.now();
/** Of each process. */
const soFar: Sums[] = [];
const running = new Set<{ kill(): void }>();
let isStopped = false;
let broken = 0;
let failed = 0;

const passedOn = [
  ...(planted === undefined ? [] : ['--planted', planted]),
  // What was made smaller is as small as it gets.
  ...(values.only === undefined ? ['--shrink'] : ['--only', values.only]),
  ...(values.all ? ['--all'] : []),
  ...(values.trace ? ['--trace'] : []),
  ...(values.nodes ? ['--nodes'] : []),
];

function onFailed(failed: Failed): void {
  const { seed, faults, parts, trace } = failed;
  console.log(`seed ${seed} (trace ${trace}):\n  ${faults.join('\n  ')}`);
  const isKept = values.only === undefined && (planted === undefined || values.keep !== undefined);
  if (isKept) console.log(`  kept in ${keep(failed, { planted, nodes: values.nodes, folder: values.keep })}`);
  const bug = planted === undefined ? '' : ` --planted '${planted}'`;
  const nodes = values.nodes ? '--nodes ' : '';
  console.log(`  repeat it with: npm run simulate -- ${nodes}--seed ${seed} --only ${onlyOf(parts)}${bug}`);
  if (!values.all) stop();
}

function stop(): void {
  isStopped = true;
  for (const one of running) one.kill();
}

/** One process after the other, with the next seeds that nobody has begun. */
async function runNext(left: Iterator<{ seed: number; count: number }>): Promise<void> {
  for (let next = left.next(); !next.done && !isStopped; next = left.next()) {
    const { seed, count } = next.value;
    const at = soFar.push(noSums()) - 1;
    const simulation = startSimulation([...passedOn, '--seed', String(seed), '--seeds', String(count)], {
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
  const size = Math.min(most, Math.max(least, Math.ceil(seeds / cores)));
  const [first, end] = [Number(values.seed), Number(values.seed) + seeds];
  for (let seed = first; seed < end; seed += size) yield { seed, count: Math.min(size, end - seed) };
}

// What was seen so far is printed then.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
const showing = setInterval(() => console.error(inWords(add(soFar))), PROGRESS_MS);
const left = pieces();
await Promise.all(Array.from({ length: cores }, () => runNext(left)));
clearInterval(showing);
const sums = add(soFar);
console.log(
  values.json ? JSON.stringify({ ...sums, failed, unseen: unseen(sums.transitions) }) : words({ ...sums, failed }),
);
if (broken > 0) console.error(`${broken} processes broke off`);
process.exitCode = failed + broken > 0 ? 1 : 0;

function inWords({ seeds: done, failed: bad, twice, steps, simulatedMs }: Sums): string {
  const years = (simulatedMs / YEAR_MS).toFixed(2);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  return `${done} of ${seeds} seeds, ${bad} with faults, ${twice} run twice; ${years} simulated years in ${steps} steps, ${seconds} s`;
}

function words(of: Sums): string {
  const list = (counts: Record<string, number>): string =>
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `  ${String(count).padStart(8)}  ${name}`)
      .join('\n');
  const never = unseen(of.transitions);
  return [
    `${inWords(of)}, ${of.seeds === 0 ? 0 : Math.round(of.cpuMs / (of.seeds + of.twice))} ms of a core each`,
    `what befell them:\n${list(of.counts)}`,
    `changes of state (before>after):\n${list(of.transitions)}`,
    `never seen: states ${never.states.join(', ') || 'none'}; changes ${never.transitions.join(', ') || 'none'}`,
  ].join('\n');
}

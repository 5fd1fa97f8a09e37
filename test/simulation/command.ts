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
/** A process of its own takes a second to start. */
const LEAST_SEEDS = 10;

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
const of = Math.max(1, Math.min(os.availableParallelism(), Math.floor(seeds / LEAST_SEEDS)));
const startedMs = performance.now();
const soFar: Sums[] = Array.from({ length: of }, noSums);

const passedOn = [
  ...['--seeds', values.seeds, '--seed', values.seed],
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
  for (const one of simulations) one.kill();
}

const simulations = soFar.map((_, at) =>
  startSimulation([...passedOn, '--share', `${at}/${of}`], {
    onFailed,
    onProgress: (sums) => {
      soFar[at] = sums;
    },
    onText: (line) => console.log(line),
  }),
);
// What was seen so far is printed then.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
const showing = setInterval(() => console.error(inWords(add(soFar))), PROGRESS_MS);
const all = await Promise.all(simulations.map(({ ended }) => ended));
clearInterval(showing);
const broken = all.filter(({ sums, isKilled }) => sums === undefined && !isKilled).length;
const sums = add(all.map(({ sums: own }, at) => own ?? soFar[at]!));
const failed = all.reduce((count, one) => count + one.failed.length, 0);
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

/**
 * The simulation as a command: `npm run simulate -- --seeds 1000`. Prints the faults of each world that has any, with the command that
 * repeats it, and the sums in the end. Exits with 1 where there was a fault.
 *
 *   --seeds N     so many worlds, one unless given        --seed S      the first of them, 1 unless given
 *   --trace       every step, for one world               --planted B   with a bug of planted.ts; stops at the first fault
 *   --json        the sums as JSON
 */
import './globals.ts';
import './doors.ts';
import './disk.ts';
import 'undici';
import { parseArgs } from 'node:util';
import { plant } from './planted.ts';
import type { Sums } from './seeds.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    planted: { type: 'string' },
    trace: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
if (values.planted !== undefined) plant(values.planted);

// Loaded when time, sockets and threads are those of the world, and a bug is in its place.
const { runSeeds } = await import('./seeds.ts');

const cpu = process.cpuUsage();
let failed = 0;
const sums = await runSeeds({
  first: Number(values.seed),
  seeds: Number(values.seeds),
  ...(values.trace && { onStep: (line) => console.log(line) }),
  onReport: ({ seed, faults, trace }) => {
    if (faults.length === 0) return true;
    failed += 1;
    console.log(`seed ${seed} (trace ${trace}):\n  ${faults.slice(0, 10).join('\n  ')}`);
    console.log(`  repeat it with: npm run simulate -- --seed ${seed}`);
    return values.planted === undefined;
  },
});
const { user, system } = process.cpuUsage(cpu);
const figures = { ...sums, failed, cpuMs: Math.round((user + system) / 1000) };
console.log(values.json ? JSON.stringify(figures) : words(figures));
process.exitCode = failed > 0 ? 1 : 0;

function words({ seeds, twice, steps, simulatedMs, counts, transitions, cpuMs }: Sums & { cpuMs: number }): string {
  const list = (of: Record<string, number>): string =>
    Object.entries(of)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `  ${String(count).padStart(8)}  ${name}`)
      .join('\n');
  const hours = (simulatedMs / 3_600_000).toFixed(1);
  const each = seeds === 0 ? 0 : Math.round(cpuMs / (seeds + twice));
  return [
    `${seeds} seeds, ${failed} with faults, ${twice} run twice; ${hours} simulated hours in ${steps} steps, ${each} ms each`,
    `what befell them:\n${list(counts)}`,
    `changes of state (before>after):\n${list(transitions)}`,
  ].join('\n');
}

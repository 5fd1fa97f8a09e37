/**
 * Helpers of all benchmark rows: arguments, child processes ended by pid, medians, tables. A row measures its systems alternately within
 * one run and prints ratios; absolute numbers vary by a factor of two with the machine's other load, and are only a rough indication.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

export const WORK = path.join(os.tmpdir(), 'postrider-bench');
mkdirSync(WORK, { recursive: true });

/** Reads `--name value` pairs over the given defaults; an unknown name ends the program. */
export function readArguments<T extends Record<string, string | number>>(defaults: T): T {
  const values: Record<string, string | number> = { ...defaults };
  const given = process.argv.slice(2);
  for (let i = 0; i < given.length; i += 2) {
    const name = (given[i] ?? '').replace(/^--/, '');
    const fallback = defaults[name];
    if (fallback === undefined) {
      console.error(`unknown argument ${given[i]}; known: ${Object.keys(defaults).join(', ')}`);
      process.exit(2);
    }
    values[name] = typeof fallback === 'number' ? Number(given[i + 1]) : String(given[i + 1]);
  }
  return values as T;
}

export function median(values: number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Returns the value below which `part` of the values are. */
export function percentile(values: number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

export function shown(value: number): string {
  if (!Number.isFinite(value)) return '-';
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Formats `median (min–max)`. */
export function spread(values: number[]): string {
  const finite = values.filter(Number.isFinite);
  return `${shown(median(finite))} (${shown(Math.min(...finite))}–${shown(Math.max(...finite))})`;
}

export function table(head: string[], rows: (string | number)[][]): void {
  const widths = head.map((text, i) => Math.max(text.length, ...rows.map((row) => String(row[i]).length)));
  const line = (row: (string | number)[]): string =>
    row.map((cell, i) => (i ? String(cell).padStart(widths[i]!) : String(cell).padEnd(widths[i]!))).join('  ');
  console.log(line(head));
  console.log(widths.map((width) => '-'.repeat(width)).join('  '));
  for (const row of rows) console.log(line(row));
}

export function machine(): string {
  const cpus = os.cpus();
  return `${cpus.length} x ${cpus[0]?.model ?? 'unknown'}, ${(os.totalmem() / 2 ** 30).toFixed(0)} GiB, node ${process.version}, load ${os.loadavg()[0]!.toFixed(2)}`;
}

/** Returns the CPU seconds of the entire machine. */
export function machineBusySeconds(): number {
  const fields = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.trim().split(/\s+/).slice(1).map(Number);
  return (fields[0]! + fields[1]! + fields[2]! + fields[5]! + fields[6]!) / 100;
}

export interface Child {
  process: ChildProcess;
  out: string;
  err: string;
  done: Promise<number | null>;
}

const children = new Set<Child>();
const closers: (() => Promise<unknown> | unknown)[] = [];

/** Registers a cleanup for the end of the program, in reverse order. */
export function onEnd(close: () => Promise<unknown> | unknown): void {
  closers.push(close);
}

export function start(command: string, args: string[], options: SpawnOptions = {}): Child {
  const child: Child = {
    process: spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options }),
    out: '',
    err: '',
    done: Promise.resolve(null),
  };
  children.add(child);
  child.process.stdout?.on('data', (data) => {
    child.out = (child.out + data).slice(-200_000);
  });
  child.process.stderr?.on('data', (data) => {
    child.err = (child.err + data).slice(-200_000);
  });
  child.process.on('error', (error) => {
    child.err += String(error);
  });
  child.done = new Promise((resolve) =>
    child.process.on('close', (code) => {
      children.delete(child);
      resolve(code);
    }),
  );
  return child;
}

export async function stop(child: Child, graceMs = 10_000): Promise<void> {
  if (child.process.exitCode !== null || child.process.signalCode !== null) return;
  child.process.kill('SIGTERM');
  if (await Promise.race([child.done.then(() => true), pause(graceMs).then(() => false)])) return;
  child.process.kill('SIGKILL');
  await child.done;
}

export async function run(
  command: string,
  args: string[],
  options: SpawnOptions & { timeoutMs?: number } = {},
): Promise<Child> {
  const child = start(command, args, options);
  const timer = setTimeout(() => child.process.kill('SIGKILL'), options.timeoutMs ?? 120_000);
  await child.done;
  clearTimeout(timer);
  return child;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export async function waitForPort(port: number, timeoutMs = 20_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = net.connect(port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    if (open) return;
    if (Date.now() > end) throw new Error(`nothing listens on port ${port} after ${timeoutMs} ms`);
    await pause(50);
  }
}

export async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

let ending = false;
/** Runs all cleanups and ends the program. */
export async function end(code: number): Promise<never> {
  if (!ending) {
    ending = true;
    for (const close of closers.reverse()) {
      try {
        await close();
      } catch (error) {
        console.error(`clean-up: ${(error as Error).message}`);
      }
    }
    for (const child of [...children]) await stop(child, 3_000);
  }
  process.exit(code);
}

/** Runs a row with a time limit, and cleans up whatever happens. */
export async function row(name: string, boundSeconds: number, body: () => Promise<void>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(130));
  const timer = setTimeout(() => {
    console.error(`${name}: not done after ${boundSeconds} s`);
    void end(3);
  }, boundSeconds * 1000);
  timer.unref();
  try {
    console.log(`\n## ${name}\n${machine()}`);
    await body();
    await end(0);
  } catch (error) {
    console.error(error);
    await end(1);
  }
}

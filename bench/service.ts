/** The service in benchmarks: the real command in its own process and data directory, set up with its command line. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildService } from '../scripts/build.ts';
import { type Child, onEnd, pause, run, start, stop, WORK } from './lib.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** The built program, as `npm start` and releases run it. */
const MAIN = await buildService();
/** Arguments of Node, with the flags of `npm start`. */
const START = ['--disable-sigusr1', MAIN, 'serve'];

export interface BenchService {
  child: Child;
  url: string;
  folder: string;
  headers: Record<string, string>;
  /** Port of SMTP submission; 0 if that role does not run. */
  smtpPort: number;
  smtpLogin: { username: string; password: string };
  startedMs: number;
  stop(): Promise<void>;
}

/**
 * Starts `postrider serve` on free ports with a new account whose domain bench.example is verified, or as another node of an existing
 * service.
 */
export async function startService(
  environment: Record<string, string>,
  folder?: string,
  joins?: BenchService,
  args: string[] = [],
): Promise<BenchService> {
  const data = folder ?? mkdtempSync(path.join(WORK, 'data-'));
  const env = {
    PATH: process.env.PATH,
    POSTRIDER_DATA_DIR: data,
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: '0',
    POSTRIDER_SMTP_HOSTNAME: 'mail.bench.example',
    POSTRIDER_LOG_LEVEL: 'error',
    POSTRIDER_MIN_FREE_BYTES: '0',
    ...environment,
  };
  const announced = path.join(data, 'serving.json');
  rmSync(announced, { force: true });
  const began = performance.now();
  const child = start(process.execPath, [...START, ...args], { env, cwd: ROOT });
  const serving = await waitForFile(announced, child);
  const startedMs = performance.now() - began;
  const service: BenchService = {
    child,
    url: `http://127.0.0.1:${serving.httpPort}`,
    folder: data,
    headers: {},
    smtpPort: serving.smtpPort ?? 0,
    smtpLogin: { username: '', password: '' },
    startedMs,
    stop: () => stop(child, 35_000),
  };
  onEnd(async () => {
    await service.stop();
    if (!folder) rmSync(data, { recursive: true, force: true });
  });
  if (joins) {
    service.headers = joins.headers;
    service.smtpLogin = joins.smtpLogin;
    return service;
  }
  const first = JSON.parse(readFileSync(path.join(data, 'first-run.json'), 'utf8')) as Record<string, string>;
  service.headers = { 'x-api-key': first.apiKey!, 'x-id': first.accountId! };
  service.smtpLogin = { username: first.smtpUsername!, password: first.smtpPassword! };
  const added = await run(process.execPath, [MAIN, 'domain', 'add', first.accountId!, 'bench.example', '--verified'], {
    env,
  });
  if (added.process.exitCode !== 0 && !/already|taken|conflict/i.test(added.err + added.out))
    throw new Error(added.err);
  return service;
}

async function waitForFile(file: string, child: Child): Promise<{ httpPort: number; smtpPort?: number }> {
  for (;;) {
    if (child.process.exitCode !== null) throw new Error(`the service ended: ${child.err}`);
    if (existsSync(file)) {
      try {
        return JSON.parse(readFileSync(file, 'utf8')) as { httpPort: number; smtpPort?: number };
      } catch {
        // The file is being written; read it again.
      }
    }
    await pause(5);
  }
}

/** Resident memory of a process and its threads in MB (the kernel reports KiB). */
export function residentMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return (Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024) / 1e6;
}

/** CPU seconds that the main threads of a process and of its child processes have used. */
export function mainThreadSeconds(parent: number): number {
  return [parent, ...childrenOf(parent)].reduce((sum, pid) => sum + secondsOf(`/proc/${pid}/task/${pid}/stat`).own, 0);
}

/** CPU seconds of a process and, with `tree`, of its child processes. */
export function processorSeconds(pid: number, options: { tree: boolean } = { tree: false }): number {
  const pids = options.tree ? [pid, ...childrenOf(pid)] : [pid];
  let seconds = 0;
  for (const one of pids) {
    const { own, ended } = secondsOf(`/proc/${one}/stat`);
    // A child that has ended is counted with its parent.
    seconds += one === pid && options.tree ? own + ended : own;
  }
  return seconds;
}

/** CPU seconds of a process or thread, and those of its children that have ended. */
function secondsOf(file: string): { own: number; ended: number } {
  try {
    const stat = readFileSync(file, 'utf8');
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    return { own: (fields[11]! + fields[12]!) / 100, ended: (fields[13]! + fields[14]!) / 100 };
  } catch {
    // The process has ended.
    return { own: 0, ended: 0 };
  }
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid;
      } catch {
        return false;
      }
    })
    .map(Number);
}

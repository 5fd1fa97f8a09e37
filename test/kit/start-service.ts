/**
 * Starts the real service as an operator does: a separate process, `postrider serve`, on free ports and its own data directory, and
 * waits until it is serving. Its log is kept for failed assertions. The directory survives kill() and restart(), and is removed by close().
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type Api, apiClient, type Credentials, type JsonObject } from './api.ts';
import { runInProcess } from './in-process-command.ts';
import { waitUntil } from './wait-until.ts';

const root = path.resolve(import.meta.dirname, '../..');
/** The variable that contains the path of the built program during a run of tests. */
export const RUN_PROGRAM = 'TEST_PROGRAM';
/** The program that tests start. */
export const PROGRAM = process.env[RUN_PROGRAM] ?? path.join(root, 'bin/postrider.js');
const START_TIMEOUT_MS = 60_000;

/** Processes that must not outlive the test, however it ends. */
const running = new Set<ChildProcess>();
let guarded = false;

function guard(child: ChildProcess): void {
  running.add(child);
  child.once('exit', () => running.delete(child));
  if (guarded) return;
  guarded = true;
  process.once('exit', () => {
    for (const one of running) one.kill('SIGKILL');
  });
  process.once('SIGTERM', () => process.exit(143));
}

export interface ServiceOptions {
  /** Arguments after `serve`. */
  args?: string[];
  /** Settings in addition to those for tests. */
  env?: Record<string, string>;
  /** An existing directory to serve; the caller removes it. */
  dataDir?: string;
  /** Data directory of the node that created the first account, to join it. */
  joins?: string;
  /** Program and arguments before node, for example strace. */
  wrapper?: string[];
  /** The entry point of another version; this version's by default. */
  program?: string;
}

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Service {
  readonly dataDir: string;
  readonly url: string;
  /** Port of the API with TLS; 0 unless POSTRIDER_HTTPS_PORT is set. */
  readonly httpsPort: number;
  /** Port of SMTP submission. */
  readonly smtpPort: number;
  /** Port of submission with implicit TLS; 0 unless POSTRIDER_SMTPS_PORT is set. */
  readonly smtpsPort: number;
  /** Port for inbound mail; 0 unless POSTRIDER_INBOUND_PORT is set. */
  readonly inboundPort: number;
  /** The live SMTP credential of the first run. */
  readonly smtpCredential: { username: string; password: string };
  /** Process id of the serving process itself, even with a wrapper. */
  readonly pid: number;
  /** stderr since the first start. */
  readonly log: string;
  readonly live: Credentials;
  readonly sandbox: Credentials;
  /** Calls with the live key, the sandbox key, and without a key. */
  readonly api: Api;
  readonly sandboxApi: Api;
  readonly anonymous: Api;
  /** Runs a command of the command line on the same data directory, in the process of the test unless the service is another version; returns its parsed `--json` output. */
  cli(...args: string[]): Promise<JsonObject>;
  /** Sends a signal and waits for the end of the process. */
  kill(signal: NodeJS.Signals): Promise<Exit>;
  /** Resolves at the end of the current process. */
  exited(): Promise<Exit>;
  /** Starts again with the same directory after an end; options replace those of the start. */
  restart(options?: Omit<ServiceOptions, 'dataDir'>): Promise<void>;
  /** Ends the process if it is still running and removes the directory. */
  close(): Promise<void>;
}

interface Serving {
  pid: number;
  httpPort: number;
  httpsPort?: number;
  smtpPort?: number;
  smtpsPort?: number;
  inboundPort?: number;
}

/** The environment of a service with this directory, or of a command. */
export function environment(dataDir: string, env: Record<string, string> = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(POSTRIDER_|NODE_TEST|NODE_OPTIONS)/.test(name));
  return {
    ...Object.fromEntries(inherited),
    POSTRIDER_DATA_DIR: dataDir,
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: '0',
    POSTRIDER_SMTP_HOSTNAME: 'postrider.test',
    POSTRIDER_MIN_FREE_BYTES: '1000000',
    // Tests must not query external hosts.
    POSTRIDER_DOCTOR_NETWORK: 'off',
    ...env,
  };
}

/** Runs `postrider <args>` to its end, whatever its result; `wrapper` goes before node. */
export async function runCommand(
  args: string[],
  options: {
    dataDir: string;
    env?: Record<string, string>;
    cwd?: string;
    wrapper?: string[];
    /** The entry point of another version; this version's by default. */
    program?: string;
  },
): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    const env = environment(options.dataDir, options.env);
    const [program = process.execPath, ...before] = [...(options.wrapper ?? []), process.execPath];
    const done = await promisify(execFile)(program, [...before, options.program ?? PROGRAM, ...args], {
      cwd: options.cwd ?? root,
      env,
      timeout: 60_000,
    });
    return { code: 0, ...done };
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code?: number; stdout?: string; stderr?: string };
    return { code: typeof code === 'number' ? code : 1, stdout, stderr };
  }
}

/** Starts a service and resolves once it serves; rejects with its log if it ends before that. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const own = options.dataDir === undefined;
  const dataDir = options.dataDir ?? mkdtempSync(path.join(os.tmpdir(), 'postrider-service-'));
  const servingFile = path.join(dataDir, 'serving.json');
  let child: ChildProcess;
  let ended: Promise<Exit>;
  let exit: Exit | undefined;
  let serving: Serving;
  let other: string | undefined;
  let log = '';

  const launch = async (how: Omit<ServiceOptions, 'dataDir'>): Promise<void> => {
    rmSync(servingFile, { force: true });
    exit = undefined;
    other = how.program;
    const [program = process.execPath, ...before] = [...(how.wrapper ?? []), process.execPath];
    const env = environment(dataDir, how.env);
    child = spawn(program, [...before, how.program ?? PROGRAM, 'serve', ...(how.args ?? [])], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    guard(child);
    // The first start prints its credentials to stdout; the log is only on stderr.
    child.stdout?.resume();
    child.stderr?.on('data', (chunk) => {
      log += chunk;
    });
    // With `exit` instead of `close`, the last lines of the log could still be in the pipe.
    ended = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        exit = { code, signal };
        resolve(exit);
      });
    });
    serving = await waitUntil(
      'the service to serve',
      () => {
        if (exit)
          throw new Error(`the service ended with ${exit.code ?? exit.signal} before it served:\n${log.slice(-4000)}`);
        return announcement(servingFile);
      },
      START_TIMEOUT_MS,
    );
  };

  await launch(options);
  const firstRun = JSON.parse(
    readFileSync(path.join(options.joins ?? dataDir, 'first-run.json'), 'utf8'),
  ) as JsonObject;
  const live = { accountId: String(firstRun.accountId), apiKey: String(firstRun.apiKey) };
  const sandbox = { accountId: live.accountId, apiKey: String(firstRun.sandboxApiKey) };
  const smtpCredential = { username: String(firstRun.smtpUsername), password: String(firstRun.smtpPassword) };
  const url = (): string => `http://127.0.0.1:${serving.httpPort}`;
  const clients = { api: apiClient(url, live), sandboxApi: apiClient(url, sandbox), anonymous: apiClient(url) };

  const kill = async (signal: NodeJS.Signals): Promise<Exit> => {
    if (!exit) process.kill(serving.pid, signal);
    return ended;
  };
  return {
    dataDir,
    live,
    sandbox,
    smtpCredential,
    ...clients,
    get url() {
      return url();
    },
    get httpsPort() {
      return serving.httpsPort ?? 0;
    },
    get smtpPort() {
      return serving.smtpPort ?? 0;
    },
    get smtpsPort() {
      return serving.smtpsPort ?? 0;
    },
    get inboundPort() {
      return serving.inboundPort ?? 0;
    },
    get pid() {
      return serving.pid;
    },
    get log() {
      return log;
    },
    cli: async (...args) => {
      const { code, stdout, stderr } = await (other === undefined
        ? runInProcess([...args, '--json'], environment(dataDir, options.env))
        : runCommand([...args, '--json'], { dataDir, env: options.env ?? {}, program: other }));
      if (code !== 0) throw new Error(`postrider ${args.join(' ')} ended with ${code}: ${stderr}`);
      return JSON.parse(stdout) as JsonObject;
    },
    kill,
    exited: () => ended,
    restart: async (how) => {
      await ended;
      await launch(how ?? options);
    },
    close: async () => {
      for (const client of Object.values(clients)) client.close();
      if (!exit) await kill('SIGKILL');
      if (own) rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function announcement(file: string): Serving | undefined {
  if (!existsSync(file)) return undefined;
  try {
    const said = JSON.parse(readFileSync(file, 'utf8')) as Serving;
    // Without a port if another process uses it.
    return said.pid > 0 && said.httpPort !== 0 ? said : undefined;
  } catch {
    // The file is being written.
    return undefined;
  }
}

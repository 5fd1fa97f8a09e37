/**
 * Implements `postrider serve --processes N`: a supervisor starts N service processes on one machine. They share ports, data directory, and
 * a PostgreSQL database, and are separate nodes in every other respect. The supervisor forwards signals, writes all logs to one stream, and
 * restarts a process that ends. It accepts no mail itself, so its death loses none.
 */
import cluster, { type Worker } from 'node:cluster';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { isSea } from 'node:sea';
import { setTimeout as pause } from 'node:timers/promises';
import { AggregatorRegistry } from 'prom-client';
import { createLog, type Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type Config, settings } from '../config.ts';
import { assertPortsFree, targetsOf } from '../roles/ports.ts';
import { ANNOUNCEMENT } from '../roles/serve.ts';
import { holdDataDirectory, prepareDataDirectory } from '../storage/data-directory.ts';
import type { FirstRun } from '../users/users.ts';
import { type CommandOutcome, type Streams, UsageError } from './command.ts';

export interface Ports {
  httpPort: number | undefined;
  smtpPort: number | undefined;
}

/** The metrics of a process, as prom-client serializes them. */
type Samples = Awaited<ReturnType<Metrics['registry']['getMetricsAsJSON']>>;

type FromProcess =
  | { kind: 'first-run'; first: FirstRun; ports: Ports }
  | { kind: 'ready' }
  /** A client of this process requests the metrics of all. */
  | { kind: 'scrape'; id: number }
  | { kind: 'samples'; id: number; samples: Samples };
type ToProcess = { kind: 'scraped'; id: number; text: string } | { kind: 'report'; id: number };

const FIRST_RESTART_MS = 1_000;
const LAST_RESTART_MS = 30_000;
/** A scrape waits this long for the metrics of a process, and then uses the ones that it reported last. */
const REPORT_MS = 2_000;
/** After a process has run for this time, the delays before its restarts start again from the first one. */
const STABLE_MS = 60_000;

export interface SupervisorOptions {
  config: Config;
  /** Number of service processes. */
  count: number;
  streams: Streams;
  onFirstRun(first: FirstRun, ports: Ports): void;
  stopRequested: Promise<'stop'>;
}

/**
 * Runs until a stop request. The exit code is 0 if all processes stopped cleanly. If the first process could not start, it is the exit code
 * of that process.
 */
export async function serveProcesses(options: SupervisorOptions): Promise<CommandOutcome> {
  const { config } = options;
  if (config.databaseUrl === undefined)
    throw new UsageError(
      '--processes needs PostgreSQL, because the embedded database belongs to one process: set POSTRIDER_DATABASE_URL',
    );
  const withoutPort = targetsOf(config).find(({ port }) => port === 0);
  if (withoutPort) {
    const { name } = settings[withoutPort.setting];
    throw new UsageError(
      `--processes needs fixed ports, which the processes share: set ${name} to a port from 1 to 65535`,
    );
  }
  // At every start: the processes would silently share the port with those of another service.
  await assertPortsFree(config);
  const folder = config.blobs.kind === 'disk' ? config.blobs.folder : undefined;
  const directory = prepareDataDirectory(config.dataDir, folder);
  const hold = holdDataDirectory(directory);
  try {
    return { exitCode: await new Supervisor(options).run() };
  } finally {
    rmSync(path.join(directory.path, ANNOUNCEMENT), { force: true });
    hold.release();
  }
}

interface Ended {
  code: number;
  isReady: boolean;
  ranMs: number;
}

class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  readonly #stopping = new AbortController();
  /** The processes that serve, with the metrics that each reported last. */
  readonly #serving = new Map<Worker, Samples>();
  /** Counters and histograms of processes that have ended, so that sums never fall. */
  #ended: Samples = [];
  readonly #reports = new Map<number, (worker: Worker, samples: Samples) => void>();
  #lastScrape = 0;
  #exitCode = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = createLog(options.config.logLevel);
  }

  async run(): Promise<number> {
    const { count, stopRequested } = this.#options;
    cluster.setupPrimary(isSea() ? EXECUTABLE_SETTINGS : { silent: true });
    process.on('SIGHUP', () => {
      for (const one of this.#serving.keys()) one.process.kill('SIGHUP');
    });
    void stopRequested.then(() => this.#stop(0));
    // The first process migrates the database and creates the first account; the others follow once it serves.
    const { promise: isServing, resolve: onReady } = Promise.withResolvers<void>();
    const first = this.#keepRunning({ isFirst: true, onReady });
    await Promise.race([isServing, first]);
    const others = Array.from({ length: count - 1 }, () =>
      this.#keepRunning({ isFirst: false, onReady: () => undefined }),
    );
    await Promise.all([first, ...others]);
    return this.#exitCode;
  }

  #stop(exitCode: number): void {
    if (this.#stopping.signal.aborted) return;
    this.#exitCode = exitCode;
    this.#stopping.abort();
    for (const one of Object.values(cluster.workers ?? {})) one?.process.kill('SIGTERM');
  }

  /** Runs a process, and another one whenever it ends, until the stop. */
  async #keepRunning({ isFirst, onReady }: { isFirst: boolean; onReady: () => void }): Promise<void> {
    let hasServed = !isFirst;
    for (let delayMs = FIRST_RESTART_MS; !this.#stopping.signal.aborted; ) {
      const { code, isReady, ranMs } = await this.#runOnce(onReady);
      hasServed ||= isReady;
      if (this.#stopping.signal.aborted) {
        this.#exitCode ||= code;
        return;
      }
      // A wrong setting prevents the first start. Later, a file may be wrong while it is replaced, and the other processes continue.
      if (!hasServed) return this.#stop(code === 0 ? 1 : code);
      if (ranMs >= STABLE_MS) delayMs = FIRST_RESTART_MS;
      this.#log.error({ exitCode: code, restartMs: delayMs }, 'service process ended; restarting it');
      await pause(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      delayMs = Math.min(delayMs * 2, LAST_RESTART_MS);
    }
  }

  #runOnce(onReady: () => void): Promise<Ended> {
    const startedMs = performance.now();
    const ended = (code: number, isReady = false): Ended => ({ code, isReady, ranMs: performance.now() - startedMs });
    let worker: Worker;
    try {
      worker = cluster.fork();
    } catch (error) {
      this.#log.error({ err: error }, 'service process cannot be started');
      return Promise.resolve(ended(1));
    }
    const { streams, onFirstRun } = this.#options;
    let isReady = false;
    // Absent if the process could not be started.
    if (worker.process.stdout) forwardLines(worker.process.stdout, streams.out);
    if (worker.process.stderr) forwardLines(worker.process.stderr, streams.err);
    worker.on('message', (message: FromProcess) => {
      if (message.kind === 'first-run') onFirstRun(message.first, message.ports);
      else if (message.kind === 'scrape') void this.#answerScrape(worker, message.id);
      else if (message.kind === 'samples') this.#reports.get(message.id)?.(worker, message.samples);
      else if (message.kind === 'ready') {
        isReady = true;
        this.#serving.set(worker, []);
        onReady();
      }
    });
    return new Promise((resolve) => {
      worker.on('error', (error) => {
        this.#log.error({ err: error }, 'service process cannot be started');
        if (worker.process.pid === undefined) resolve(ended(1));
      });
      worker.process.once('close', (exitCode: number | null, signal: NodeJS.Signals | null) => {
        this.#keepCounters(this.#serving.get(worker) ?? []);
        this.#serving.delete(worker);
        // A process that has not yet installed its handlers is ended by the signal itself, and has nothing to stop.
        resolve(ended(signal === 'SIGTERM' ? 0 : (exitCode ?? 1), isReady));
      });
    });
  }

  #keepCounters(samples: Samples): void {
    const counters = samples.filter(({ type }) => ['counter', 'histogram'].includes(String(type)));
    const registry = AggregatorRegistry.aggregate([this.#ended, counters]);
    void registry.getMetricsAsJSON().then((sums) => {
      this.#ended = sums;
    });
  }

  async #answerScrape(worker: Worker, id: number): Promise<void> {
    await this.#collect();
    const text = await AggregatorRegistry.aggregate([...this.#serving.values(), this.#ended]).metrics();
    send(worker, { kind: 'scraped', id, text });
  }

  /** Requests the metrics of all processes. If a process does not answer, the metrics that it reported last are used. */
  async #collect(): Promise<void> {
    this.#lastScrape += 1;
    const id = this.#lastScrape;
    const missing = new Set(this.#serving.keys());
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, REPORT_MS);
    this.#reports.set(id, (worker, samples) => {
      if (this.#serving.has(worker)) this.#serving.set(worker, samples);
      missing.delete(worker);
      if (missing.size === 0) resolve();
    });
    for (const one of missing) send(one, { kind: 'report', id });
    await promise;
    clearTimeout(timer);
    this.#reports.delete(id);
  }
}

/** A process may end before it reads the message. */
function send(worker: Worker, message: ToProcess): void {
  if (worker.isConnected()) worker.send(message, () => undefined);
}

/** The single executable is its own script: its arguments are those of the command. */
const EXECUTABLE_SETTINGS = { silent: true, exec: process.argv[2] ?? '', args: process.argv.slice(3), execArgv: [] };

/** Writes complete lines only, so the lines of several processes do not mix. */
function forwardLines(stream: NodeJS.ReadableStream, write: (text: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1;
    if (end === 0) rest += text;
    else {
      write(rest + text.slice(0, end));
      rest = text.slice(end);
    }
  });
  stream.on('end', () => {
    if (rest !== '') write(`${rest}\n`);
  });
}

/** Returns the connection of this service process to its supervisor; undefined if it has none. */
export function supervisor(): SupervisorLink | undefined {
  return cluster.isWorker ? link() : undefined;
}

export interface SupervisorLink {
  /** Process id of the supervisor, which accepts signals for all processes. */
  pid: number;
  sayFirstRun(first: FirstRun, ports: Ports): void;
  sayReady(): void;
  /** Makes each scrape of this process return the sum of all processes. */
  share(metrics: Metrics): void;
}

function link(): SupervisorLink {
  const say = (message: FromProcess): void => void process.send!(message, undefined, undefined, () => undefined);
  return {
    pid: process.ppid,
    sayFirstRun: (first, ports) => say({ kind: 'first-run', first, ports }),
    sayReady: () => say({ kind: 'ready' }),
    share: (metrics) => {
      const scrapes = new Map<number, (text: string) => void>();
      process.on('message', (message: ToProcess) => {
        if (message.kind === 'report')
          void metrics.registry.getMetricsAsJSON().then((samples) => say({ kind: 'samples', id: message.id, samples }));
        else if (message.kind === 'scraped') {
          scrapes.get(message.id)?.(message.text);
          scrapes.delete(message.id);
        }
      });
      let lastId = 0;
      metrics.collectFrom(() => {
        lastId += 1;
        const { promise, resolve } = Promise.withResolvers<string>();
        scrapes.set(lastId, resolve);
        say({ kind: 'scrape', id: lastId });
        return promise;
      });
    },
  };
}

/**
 * Implements `postrider serve --processes N`: a supervisor starts N service processes on one machine. They share ports, data directory, and
 * a PostgreSQL database, and are separate nodes in every other respect. The supervisor forwards signals, writes all logs to one stream, and
 * restarts a process that ends. It accepts no mail itself, so its death loses none.
 */
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import { AggregatorRegistry } from 'prom-client';
import { createLog, type Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type Config, settings } from '../config.ts';
import { assertPortsFree, targetsOf } from '../roles/ports.ts';
import { holdDataDirectory, prepareDataDirectory } from '../storage/data-directory.ts';
import type { FirstRun } from '../users/users.ts';
import { type CommandOutcome, EX_CONFIG, type Streams, UsageError } from './command.ts';

export interface Ports {
  httpPort: number | undefined;
  smtpPort: number | undefined;
}

type FromProcess =
  | { kind: 'first-run'; first: FirstRun; ports: Ports }
  | { kind: 'ready' }
  | { kind: 'scrape'; id: number };
type ToProcess = { kind: 'scraped'; id: number; text?: string };

const FIRST_RESTART_MS = 1_000;
const LAST_RESTART_MS = 30_000;
/** A process that ran for this time is restarted after the first delay again. */
const STABLE_MS = 60_000;

export interface SupervisorOptions {
  config: Config;
  /** Number of service processes. */
  count: number;
  streams: Streams;
  onFirstRun(first: FirstRun, ports: Ports): void;
  stopRequested: Promise<'stop'>;
}

/** Supervises until a stop request. Exit code 0 if all processes stopped cleanly; that of the first process if it could not start. */
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
  await assertPortsFree(config);
  const folder = config.blobs.kind === 'disk' ? config.blobs.folder : undefined;
  const hold = holdDataDirectory(prepareDataDirectory(config.dataDir, folder));
  try {
    return { exitCode: await new Supervisor(options).run() };
  } finally {
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
  readonly #metrics = new AggregatorRegistry();
  readonly #stopping = new AbortController();
  /** The processes that serve. */
  readonly #serving = new Set<Worker>();
  #exitCode = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = createLog(options.config.logLevel);
  }

  async run(): Promise<number> {
    const { count, stopRequested } = this.#options;
    cluster.setupPrimary({ silent: true });
    process.on('SIGHUP', () => {
      for (const one of this.#serving) one.process.kill('SIGHUP');
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
      if (!hasServed || code === EX_CONFIG) return this.#stop(code === 0 ? 1 : code);
      if (ranMs >= STABLE_MS) delayMs = FIRST_RESTART_MS;
      this.#log.error({ exitCode: code, restartMs: delayMs }, 'service process ended; restarting it');
      await pause(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      delayMs = Math.min(delayMs * 2, LAST_RESTART_MS);
    }
  }

  #runOnce(onReady: () => void): Promise<Ended> {
    const startedMs = performance.now();
    const worker = cluster.fork();
    const { streams, onFirstRun } = this.#options;
    let isReady = false;
    forwardLines(worker.process.stdout!, streams.out);
    forwardLines(worker.process.stderr!, streams.err);
    worker.on('message', (message: FromProcess) => {
      if (message.kind === 'first-run') onFirstRun(message.first, message.ports);
      else if (message.kind === 'scrape') void this.#answerScrape(worker, message.id);
      else if (message.kind === 'ready') {
        isReady = true;
        this.#serving.add(worker);
        onReady();
      }
    });
    return new Promise((resolve) => {
      worker.process.once('close', (exitCode: number | null, signal: NodeJS.Signals | null) => {
        this.#serving.delete(worker);
        // A process that has not yet installed its handlers is ended by the signal itself, and has nothing to stop.
        const code = signal === 'SIGTERM' ? 0 : (exitCode ?? 1);
        resolve({ code, isReady, ranMs: performance.now() - startedMs });
      });
    });
  }

  async #answerScrape(worker: Worker, id: number): Promise<void> {
    const text = await this.#metrics.clusterMetrics().catch(() => undefined);
    const message: ToProcess = { kind: 'scraped', id, ...(text !== undefined && { text }) };
    if (worker.isConnected()) worker.send(message);
  }
}

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

/** The supervisor of this service process; undefined if it runs alone. */
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
  const say = (message: FromProcess): void => void process.send!(message);
  return {
    pid: process.ppid,
    sayFirstRun: (first, ports) => say({ kind: 'first-run', first, ports }),
    sayReady: () => say({ kind: 'ready' }),
    share: (metrics) => {
      AggregatorRegistry.setRegistries([metrics.registry]);
      // Answers the supervisor's requests for the metrics of this process.
      new AggregatorRegistry();
      const scrapes = new Map<number, (text: string | undefined) => void>();
      process.on('message', (message: Partial<ToProcess>) => {
        if (message.kind !== 'scraped') return;
        scrapes.get(message.id!)?.(message.text);
        scrapes.delete(message.id!);
      });
      let lastId = 0;
      metrics.collectFrom(async () => {
        lastId += 1;
        const { promise, resolve } = Promise.withResolvers<string | undefined>();
        scrapes.set(lastId, resolve);
        say({ kind: 'scrape', id: lastId });
        const text = await promise;
        if (text === undefined) throw new Error('a service process did not report its metrics within 5 s');
        return text;
      });
    },
  };
}

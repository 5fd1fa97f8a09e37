/**
 * A node in the simulation: the real roles, with simulated parts for what the product would open itself, on a simulated disk. It is
 * started, stopped as by an operator, killed between any two steps, or loses its power.
 */
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { Unavailable } from '../../src/base/failure.ts';
import { createLog, type Log } from '../../src/base/log.ts';
import { createMetrics, type Metrics } from '../../src/base/metrics.ts';
import { type Config, readConfig, VERSION } from '../../src/config.ts';
import { PROVIDERS } from '../../src/delivery/delivery.ts';
import { openDns } from '../../src/net/dns.ts';
import { joinNodes } from '../../src/nodes/nodes.ts';
import { openDatabase, openHints } from '../../src/roles/open-database.ts';
import { type Parts, watchOverload } from '../../src/roles/parts.ts';
import { startRoles } from '../../src/roles/start-roles.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { openS3Blobs } from '../../src/storage/blobs/s3.ts';
import type { Database } from '../../src/storage/database.ts';
import type { SqliteConnection } from '../../src/storage/sqlite/connection.ts';
import { openSqliteDatabase } from '../../src/storage/sqlite/database.ts';
import { createAddressHash } from '../../src/suppressions/suppressions.ts';
import { recoverOperation } from '../../src/work/work.ts';
import { absent } from './absences.ts';
import { DATABASE_URL } from './database-server.ts';
import { here } from './globals.ts';
import { STORE } from './s3-store.ts';
import type { Template } from './template.ts';
import type { Process } from './timeline.ts';

export const HTTP_PORT = 8025;
export const SMTP_PORT = 2525;
export const INBOUND_PORT = 2526;
/** Bounces and reports are sent to this domain. */
export const BOUNCE_DOMAIN = 'bounces.postrider.example';

/** Counters of a process; shared by all scenarios, since they are not read. */
let metrics: Metrics | undefined;

function sharedMetrics(): Metrics {
  metrics ??= { ...createMetrics(), readQueueFrom: () => undefined, readGaugeFrom: () => undefined };
  return metrics;
}

/** Queries the database of a scenario in its current state, in no time. */
export type Rows = Pick<SqliteConnection, 'all' | 'get'>;

export interface SimulatedNode {
  /** The current file of its own database. */
  readonly file: string;
  /** Undefined while a transaction is running there. */
  readonly rows: Rows | undefined;
  /** The current process; undefined while the node is dead. */
  readonly process: Process | undefined;
  readonly isUp: boolean;
  /** The node is up once it serves; if it dies first, it never is. */
  start(): void;
  kill(): void;
  cutPower(): void;
  /** Resolves with whether the stop completed without a death. */
  stop(): Promise<boolean>;
}

export interface NodeOptions {
  /** The storage broke, and the process ended itself. */
  onBroken(): void;
  template: Template;
  folder: string;
  /** Whether it has the inbound role. */
  takesMail: boolean;
  /** The DNS server that it queries. */
  resolver: string;
  /** Content retention, if shorter than usual. */
  contentDays: number | undefined;
  /** Whether content is stored in S3. */
  usesStore: boolean;
  onLog(level: string, line: string): void;
  /** One of several nodes that share the database server of the scenario, with its own machine's clock. */
  shared?: { name: string; skewMs: number };
}

const configOf = (
  folder: string,
  { takesMail, resolver, contentDays }: Pick<NodeOptions, 'takesMail' | 'resolver' | 'contentDays'>,
): Config =>
  readConfig({
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_HTTP_PORT: String(HTTP_PORT),
    POSTRIDER_SMTP_PORT: String(SMTP_PORT),
    POSTRIDER_HTTP_HOST: '0.0.0.0',
    POSTRIDER_SMTP_HOSTNAME: 'mail.postrider.example',
    POSTRIDER_DNS_SERVERS: resolver,
    ...(contentDays !== undefined && { POSTRIDER_CONTENT_DAYS: String(contentDays) }),
    ...(takesMail && { POSTRIDER_BOUNCE_DOMAIN: BOUNCE_DOMAIN, POSTRIDER_INBOUND_PORT: String(INBOUND_PORT) }),
  });

export function createNode({
  template,
  folder,
  takesMail,
  resolver,
  contentDays,
  usesStore,
  onLog,
  onBroken,
  shared: cluster,
}: NodeOptions): SimulatedNode {
  const { timeline, threads, network } = here();
  let generation = 0;
  let file = path.join(folder, 'postrider.db');
  if (!cluster) copyFileSync(template.databaseFile, file);
  let process: Process | undefined;
  let running: { stop(): Promise<void> } | undefined;

  const log = (): Log =>
    createLog('warn', (line) => {
      const { level } = JSON.parse(line) as { level: string };
      onLog(level, line);
    });

  const ends = (): void => void timeline.soon('ends', () => onBroken());
  const openFile = async (): Promise<Database> => {
    const database = await openSqliteDatabase({
      file,
      operationsModule: '',
      log: log(),
      onBroken: ends,
    });
    await database.execute(recoverOperation, Date.now());
    return database;
  };

  const open = async (): Promise<{ stop(): Promise<void> }> => {
    const config = {
      ...configOf(template.folder, { takesMail, resolver, contentDays }),
      databaseUrl: cluster && DATABASE_URL,
    };
    const directory = { path: template.folder, databaseFile: file, blobsFolder: '' };
    const own = { directory, clock: systemClock, log: log(), onBroken };
    const database = cluster ? await openDatabase({ ...own, config }) : await openFile();
    const shared = { clock: database.clock ?? systemClock, log: own.log };
    const hints = await openHints(config, own.log);
    const dns = openDns({ servers: config.dnsServers, dnssec: config.dnssec });
    const overload = await watchOverload({ database, folders: [], minFreeBytes: 0, nowMs: () => shared.clock.now() });
    const store = usesStore ? openS3Blobs({ ...STORE, clock: shared.clock }) : undefined;
    const parts: Parts = {
      ...shared,
      config,
      metrics: sharedMetrics(),
      tracer: undefined,
      database,
      dns,
      overload,
      hints,
      directory,
      secretKey: template.secretKey,
      addressHash: createAddressHash(template.secretKey),
      blobs: store ?? openDiskBlobs('/simulated/blobs', { onBroken: ends }),
      stop: async () => {
        await overload.stop();
        dns.close();
        await hints.stop();
        await store?.close();
        await database.close();
      },
    };
    const nodes = await joinNodes({ ...parts, host: config.smtpHostname, version: VERSION, roles: config.roles });
    const roles = await startRoles(parts, {
      nodes,
      tlsFiles: undefined,
      providers: PROVIDERS,
      erases: false,
      logsOnlyFailed: true,
    });
    return {
      stop: async () => {
        overload.startDraining();
        await roles.stop();
        await nodes.stop();
        await parts.stop();
      },
    };
  };

  /** What it learned just now is not recorded. */
  const loses = (): void => {
    if (process) absent(process, { fromMs: timeline.nowMs, untilMs: timeline.nowMs });
  };

  const die = (silently: boolean): void => {
    if (process === undefined) return;
    process.isDead = true;
    process.endedMs = timeline.nowMs;
    network.died(process, { silently });
    if (!cluster) threads.rollBack(file);
    process = undefined;
    running = undefined;
  };

  return {
    get file() {
      return file;
    },
    get rows() {
      return threads.connection(file, 'read');
    },
    get process() {
      return process;
    },
    get isUp() {
      return running !== undefined;
    },
    start: () => {
      if (process !== undefined) onLog('error', 'a node that runs was started');
      generation += 1;
      const name = `${cluster?.name ?? 'node'}.${generation}`;
      const own = { name, isDead: false, skewMs: cluster?.skewMs ?? 0 };
      process = own;
      timeline.as(own, () => {
        open().then(
          (opened) => {
            if (!own.isDead) running = opened;
          },
          (error: Error) => {
            if (own.isDead) return;
            if (!(error instanceof Unavailable)) onLog('error', `the start failed: ${error.stack}`);
            ends();
          },
        );
      });
    },
    kill: () => {
      loses();
      die(false);
    },
    cutPower: () => {
      loses();
      die(true);
      if (cluster) return;
      const into = path.join(folder, `postrider-${generation}.db`);
      threads.cut(file, into);
      file = into;
    },
    stop: async () => {
      const own = process;
      const { stop } = running!;
      running = undefined;
      await timeline.as(own!, stop).catch((error: Error) => onLog('error', `the stop failed: ${error.stack}`));
      if (own !== process) return false;
      die(false);
      return true;
    },
  };
}

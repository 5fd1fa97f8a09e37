/**
 * A node of ours in the simulated world: the real roles with the parts that the product would open for itself, on a disk of the
 * world. It is started, stopped as by an operator, killed between any two steps, or loses its power.
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
import { type Parts, watchOverload } from '../../src/roles/parts.ts';
import { startRoles } from '../../src/roles/start-roles.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { noHints } from '../../src/storage/database.ts';
import { openSqliteDatabase } from '../../src/storage/sqlite/database.ts';
import { recoverOperation } from '../../src/work/work.ts';
import { forgetTimers, here } from './globals.ts';
import type { Template } from './template.ts';
import type { Process } from './timeline.ts';

export const HTTP_PORT = 8025;
export const SMTP_PORT = 2525;
export const INBOUND_PORT = 2526;
/** What comes back comes to it. */
export const BOUNCE_DOMAIN = 'bounces.postrider.example';
/** Of the resolver that the node asks. */
const RESOLVER = '9.9.9.9';

/** Counters of a process; those of all worlds together, since nobody reads them. */
let metrics: Metrics | undefined;

function sharedMetrics(): Metrics {
  metrics ??= { ...createMetrics(), readQueueFrom: () => undefined, readGaugeFrom: () => undefined };
  return metrics;
}

export interface SimulatedNode {
  /** The file of its database at present. */
  readonly file: string;
  readonly isUp: boolean;
  /** Resolves once it serves; a node that dies meanwhile never does. */
  start(): void;
  kill(): void;
  cutPower(): void;
  stop(): Promise<void>;
}

export interface NodeOptions {
  /** The storage broke, and the process ended by itself. */
  onBroken(): void;
  template: Template;
  folder: string;
  /** Whether it has the inbound role. */
  takesMail: boolean;
  onLog(level: string, line: string): void;
}

const configOf = (folder: string, takesMail: boolean): Config =>
  readConfig({
    ...{ POSTRIDER_DATA_DIR: folder, POSTRIDER_HTTP_PORT: String(HTTP_PORT), POSTRIDER_SMTP_PORT: String(SMTP_PORT) },
    ...{ POSTRIDER_HTTP_HOST: '0.0.0.0', POSTRIDER_SMTP_HOSTNAME: 'mail.postrider.example' },
    ...{ POSTRIDER_DNS_SERVERS: RESOLVER },
    ...(takesMail && { POSTRIDER_BOUNCE_DOMAIN: BOUNCE_DOMAIN, POSTRIDER_INBOUND_PORT: String(INBOUND_PORT) }),
  });

export function createNode({ template, folder, takesMail, onLog, onBroken }: NodeOptions): SimulatedNode {
  const { timeline, threads, network } = here();
  let generation = 0;
  let file = path.join(folder, 'postrider.db');
  copyFileSync(template.databaseFile, file);
  let process: Process | undefined;
  let running: { stop(): Promise<void> } | undefined;

  const log = (): Log =>
    createLog('warn', (line) => {
      const { level } = JSON.parse(line) as { level: string };
      onLog(level, line);
    });

  const open = async (): Promise<{ stop(): Promise<void> }> => {
    const shared = { clock: systemClock, log: log() };
    const config = configOf(template.folder, takesMail);
    const database = await openSqliteDatabase({
      ...{ file, operationsModule: '', log: shared.log },
      onBroken: () => timeline.soon('ends', () => onBroken()),
    });
    await database.execute(recoverOperation, Date.now());
    const dns = openDns({ servers: config.dnsServers, dnssec: config.dnssec });
    const overload = await watchOverload({ database, folders: [], minFreeBytes: 0, nowMs: () => Date.now() });
    const parts: Parts = {
      ...{ ...shared, config, metrics: sharedMetrics(), database, dns, overload, hints: noHints },
      ...{ directory: { path: template.folder, databaseFile: file, blobsFolder: '' }, secretKey: template.secretKey },
      blobs: openDiskBlobs('/simulated/blobs'),
      stop: async () => {
        await overload.stop();
        dns.close();
        await database.close();
      },
    };
    const nodes = await joinNodes({ ...parts, host: config.smtpHostname, version: VERSION, roles: config.roles });
    const roles = await startRoles(parts, { nodes, tlsFiles: undefined, providers: PROVIDERS });
    return {
      stop: async () => {
        overload.startDraining();
        await roles.stop();
        await nodes.stop();
        await parts.stop();
      },
    };
  };

  const die = (silently: boolean): void => {
    if (process === undefined) return;
    process.isDead = true;
    network.died(process, { silently });
    threads.rollBack(file);
    forgetTimers();
    process = undefined;
    running = undefined;
  };

  return {
    get file() {
      return file;
    },
    get isUp() {
      return running !== undefined;
    },
    start: () => {
      generation += 1;
      const own = { name: `node.${generation}`, isDead: false };
      process = own;
      timeline.as(own, () => {
        open().then(
          (opened) => {
            if (!own.isDead) running = opened;
          },
          (error: Error) => {
            if (!(error instanceof Unavailable)) onLog('error', `the start failed: ${error.stack}`);
            timeline.soon('ends', () => onBroken());
          },
        );
      });
    },
    kill: () => die(false),
    cutPower: () => {
      die(true);
      const into = path.join(folder, `postrider-${generation}.db`);
      threads.cut(file, into);
      file = into;
    },
    stop: async () => {
      const own = process;
      const { stop } = running!;
      running = undefined;
      await timeline.as(own!, stop);
      if (own === process) die(false);
    },
  };
}

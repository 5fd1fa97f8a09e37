/**
 * What the roles of one process share: storage, secrets, resolver, counters. Opened in dependency order and closed in reverse; if one
 * cannot be opened, the error says why and nothing stays open. Also watches what intake depends on, and tells without waiting why nothing
 * can be accepted: storage failed, a disk nearly full, the queue at its limit, or the service stopping. The same reasons make /ready fail.
 */
import { type Clock, systemClock } from '../base/clock.ts';
import { type Running, stopAll } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { createMetrics, type LabeledValue, type Metrics } from '../base/metrics.ts';
import type { Tracer } from '../base/trace.ts';
import { type Config, VERSION } from '../config.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import { type Cidr, parseCidrs } from '../net/address-guard.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { openHttpClient } from '../net/http-client.ts';
import { startOtlp } from '../net/otlp.ts';
import type { Accepted } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import {
  type DataDirectory,
  type FreeSpace,
  freeSpace,
  holdDataDirectory,
  prepareDataDirectory,
} from '../storage/data-directory.ts';
import type { Database, Hints } from '../storage/database.ts';
import { loadSecretKey } from '../storage/secret-key.ts';
import { type AddressHash, createAddressHash } from '../suppressions/suppressions.ts';
import { backlogOperation } from '../work/work.ts';
import { checkBlobStore, openBlobStore } from './blob-store.ts';
import { openDatabase, openHints } from './open-database.ts';
import { measureBuild, measureDatabase } from './process-metrics.ts';
import { backUpBeforeUpgrade } from './upgrade-backup.ts';

export interface Parts extends Running {
  config: Config;
  log: Log;
  clock: Clock;
  metrics: Metrics;
  /** Reports the traces of messages; undefined without a collector. */
  tracer: Tracer | undefined;
  directory: DataDirectory;
  database: Database;
  blobs: Blobs;
  secretKey: Buffer;
  addressHash: AddressHash;
  dns: Dns;
  overload: Overload;
  /** Hints between nodes that share a database. */
  hints: Hints;
}

interface PartsOptions {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Whether the process that started this one holds the data directory for it. */
  isDirectoryHeld?: boolean;
  /** Storage can no longer be trusted: the process should exit. */
  onBroken(reason: string): void;
}

/** Parses the ranges of a setting that is already validated. */
export function ranges(list: string[]): Cidr[] {
  const parsed = parseCidrs(list.join(','));
  if (!parsed.ok) throw new Error(`${parsed.invalid} is not a range of addresses`);
  return parsed.cidrs;
}

/** Returns the folders for accepted mail: the data directory, and the blob folder if that is separate. */
export function watchedFolders(config: Pick<Config, 'blobs'>, directory: DataDirectory): Watched[] {
  const own: Watched = { name: 'data directory', folder: directory.path };
  const { blobs } = config;
  if (blobs.kind !== 'disk' || blobs.folder === undefined) return [own];
  return [own, { name: 'folder of POSTRIDER_BLOB_URL', folder: directory.blobsFolder }];
}

/** Migrates and opens everything. */
export async function openParts(options: PartsOptions): Promise<Parts> {
  const { config, log } = options;
  const opened: Running[] = [];
  try {
    const directory = prepareDataDirectory(
      config.dataDir,
      config.blobs.kind === 'disk' ? config.blobs.folder : undefined,
    );
    const hold = options.isDirectoryHeld ? undefined : holdDataDirectory(directory);
    if (hold) opened.push({ stop: async () => hold.release() });
    const metrics = createMetrics();
    const openedDatabase = await openDatabase({
      config,
      directory,
      clock: options.clock ?? systemClock,
      log,
      onBroken: options.onBroken,
      beforeMigration: async (connection) => {
        const file = await backUpBeforeUpgrade(config, { connection, directory, clock: systemClock });
        if (file !== undefined) log.info({ file }, 'database backed up before the upgrade');
      },
    });
    const database = measureDatabase(openedDatabase, metrics);
    opened.push({ stop: () => database.close() });
    if (config.databaseUrl === undefined) hold?.noteDatabase();
    const clock = options.clock ?? database.clock ?? systemClock;
    const hints = await openHints(config, log);
    opened.push(hints);
    const secretKey = await loadSecretKey({ directory, database, configured: config.secretKey });
    const dns = openDns({ servers: config.dnsServers, dnssec: config.dnssec });
    opened.push({ stop: async () => dns.close() });
    const overload = await watchOverload({
      database,
      folders: watchedFolders(config, directory),
      minFreeBytes: config.minFreeBytes,
      nowMs: () => clock.now(),
    });
    opened.push(overload);
    metrics.readQueueFrom(() => overload.queue());
    measureBuild(metrics);
    const disk = { name: 'postrider_disk_free_bytes', help: 'Free disk space where accepted mail is stored.' };
    metrics.readGaugeFrom(disk, () => overload.freeBytes());
    const readiness = { name: 'postrider_not_ready', help: 'Whether /ready fails for this reason (0 or 1).' };
    metrics.readGaugeFrom(readiness, () => {
      const parts = new Set(overload.reasons().map(({ part }) => part));
      return PARTS.map((reason) => ({ labels: { reason }, value: Number(parts.has(reason)) }));
    });
    const store = await openBlobStore(config, { directory, clock, onBroken: options.onBroken });
    opened.push(store);
    const { blobs } = store;
    await checkBlobStore(config, { blobs, database, log });
    const tracer = openTracer({ config, log, metrics, dns }, opened);
    const addressHash = createAddressHash(secretKey);
    const shared = { config, log, clock, metrics, tracer, directory, database, blobs, secretKey, dns, overload, hints };
    return { ...shared, addressHash, stop: () => stopAll(opened) };
  } catch (error) {
    await stopAll(opened);
    throw error;
  }
}

function openTracer(
  { config, log, metrics, dns }: Pick<Parts, 'config' | 'log' | 'metrics' | 'dns'>,
  opened: Running[],
): Tracer | undefined {
  const { otlpEndpoint: endpoint, otlpHeaders: headers, otlpRatio } = config;
  if (endpoint === undefined) return undefined;
  const resource = { 'service.version': VERSION, 'service.instance.id': `${config.smtpHostname}:${process.pid}` };
  // The operator chose the collector, which is usually at a private address.
  const http = openHttpClient({
    lookup: dns.lookupHost,
    allow: ranges(['0.0.0.0/0', '::/0']),
    connectionsPerOrigin: 1,
  });
  const tracer = startOtlp({ endpoint, headers, ratio: otlpRatio, resource, http, log, ...metrics.spans });
  opened.push({ stop: () => http.close() }, tracer);
  return tracer;
}

/** Number of queued messages at which intake stops: about 20 GB of small mail in SQLite. */
const QUEUE_LIMIT = 5_000_000;
const INTERVAL_MS = 1_000;

const PARTS = ['service', 'storage', 'disk', 'queue'] as const;

interface Reason {
  /** Which part is not ready. */
  part: (typeof PARTS)[number];
  message: string;
}

interface QueueFigures {
  depth: number;
  /** Age in seconds of the oldest due message; 0 without one. */
  oldestAgeSeconds: number;
}

interface Overload extends Running {
  /** Empty if the service can accept mail. */
  reasons(): Reason[];
  /** Whether a disk has too little space for inbound mail, before customers are refused. */
  isScarce(): boolean;
  queue(): QueueFigures;
  /** Free bytes of each watched disk that can be queried, by folder name. */
  freeBytes(): LabeledValue[];
  startDraining(): void;
}

/** A folder whose disk is watched, and its name in public messages. */
interface Watched {
  name: string;
  folder: string;
}

interface OverloadOptions {
  database: Database;
  folders: readonly Watched[];
  minFreeBytes: number;
  nowMs(): number;
}

/** Makes its first measurement before it resolves. */
export async function watchOverload(options: OverloadOptions): Promise<Overload> {
  let draining = false;
  let disks: (FreeSpace & Watched)[] = [];
  let queue: QueueFigures = { depth: 0, oldestAgeSeconds: 0 };
  let nextCountMs = 0;
  let looking: Promise<void> | undefined;

  const countQueue = async (): Promise<void> => {
    const began = performance.now();
    if (began < nextCountMs) return;
    const { depth, oldestDueMs } = await options.database.execute(backlogOperation, DELIVERY_WORK);
    const ageMs = oldestDueMs === undefined ? 0 : Math.max(0, options.nowMs() - oldestDueMs);
    queue = { depth, oldestAgeSeconds: ageMs / 1000 };
    // Counting a long queue takes time: at most one fiftieth of the reader's.
    nextCountMs = performance.now() + Math.max(1_000, 50 * (performance.now() - began));
  };

  const look = async (): Promise<void> => {
    disks = await Promise.all(
      options.folders.map(async (watched) => ({
        ...watched,
        ...(await freeSpace(watched.folder, options.minFreeBytes)),
      })),
    );
    await countQueue().catch(() => undefined);
  };
  await look();
  const timer = setInterval(() => {
    looking ??= look().finally(() => {
      looking = undefined;
    });
  }, INTERVAL_MS);
  timer.unref();

  return {
    reasons: () => {
      const reasons: Reason[] = [];
      const storage = options.database.state();
      if (draining) reasons.push({ part: 'service', message: 'the service is stopping' });
      if (!storage.ready) reasons.push({ part: 'storage', message: storage.reason ?? 'storage is not ready' });
      for (const { name, shortage } of disks) {
        if (shortage !== undefined) reasons.push({ part: 'disk', message: `${name}: ${shortage}` });
      }
      if (queue.depth >= QUEUE_LIMIT)
        reasons.push({ part: 'queue', message: `the queue has reached its limit of ${QUEUE_LIMIT} messages` });
      return reasons;
    },
    isScarce: () => disks.some((disk) => disk.isScarce),
    queue: () => queue,
    freeBytes: () =>
      disks.flatMap(({ name, freeBytes }) =>
        freeBytes === undefined ? [] : [{ labels: { disk: name }, value: freeBytes }],
      ),
    startDraining: () => {
      draining = true;
    },
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

export interface Nudges {
  nudgeDelivery(): void;
  nudgeWebhooks(): void;
}

/** Counts and logs mail that was accepted over HTTP or SMTP, and wakes whatever waits for it. */
export function noteAccepted(
  { metrics, log }: { metrics: Metrics; log: Log },
  nudges: Nudges,
  accepted: Accepted,
): void {
  const { accountId, mode, source, recipients, requestId } = accepted;
  let suppressed = 0;
  let waiting = 0;
  for (const { status } of recipients) {
    if (status === 'suppressed') suppressed += 1;
    if (status === 'queued') waiting += 1;
  }
  metrics.accepted[mode].inc(recipients.length);
  metrics.acceptedBySource[source].inc(recipients.length);
  if (suppressed > 0) metrics.suppressed[mode].inc(suppressed);
  metrics.acceptSeconds.observe(accepted.tookMs / 1000);
  const messageIds = recipients.map((recipient) => recipient.messageId);
  log.info({ requestId, accountId, mode, source, messageIds }, 'mail accepted');
  if (waiting > accepted.dispatched) nudges.nudgeDelivery();
  nudges.nudgeWebhooks();
}

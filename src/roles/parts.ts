/**
 * What the roles of one process share: storage, secrets, resolver, counters. Opened in the order in which they build on
 * each other, closed in the reverse; what cannot be opened says so in a sentence and nothing stays open.
 */

import type { Clock } from '../base/clock.ts';
import { systemClock } from '../base/clock.ts';
import { type Running, stopAll } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { createMetrics, type Metrics } from '../base/metrics.ts';
import type { Config } from '../config.ts';
import { type Cidr, parseCidrs } from '../net/address-guard.ts';
import { type Dns, openDns } from '../net/dns.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { type DataDirectory, holdDataDirectory, prepareDataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import type { Hints } from '../storage/hints.ts';
import { loadSecretKey } from '../storage/secret-key.ts';
import { checkBlobStore, openBlobStore } from './blob-store.ts';
import { openDatabase, openHints } from './open-database.ts';
import { type Overload, type Watched, watchOverload } from './overload.ts';

export interface Parts extends Running {
  config: Config;
  log: Log;
  clock: Clock;
  metrics: Metrics;
  directory: DataDirectory;
  database: Database;
  blobs: Blobs;
  secretKey: Buffer;
  dns: Dns;
  overload: Overload;
  /** What nodes that share a database tell each other. */
  hints: Hints;
}

export interface PartsOptions {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Storage can no longer be trusted: the process should end. */
  onBroken(reason: string): void;
}

/** Ranges of an already validated setting. */
export function ranges(list: string[]): Cidr[] {
  const parsed = parseCidrs(list.join(','));
  if (!parsed.ok) throw new Error(`${parsed.invalid} is not a range of addresses`);
  return parsed.cidrs;
}

/** Where what is accepted is kept: the data directory, and the folder of the blobs where that is another. */
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
    const release = holdDataDirectory(directory);
    opened.push({ stop: async () => release() });
    const database = await openDatabase({
      config,
      directory,
      clock: options.clock ?? systemClock,
      log,
      onBroken: options.onBroken,
    });
    opened.push({ stop: () => database.close() });
    const clock = options.clock ?? database.clock ?? systemClock;
    const hints = await openHints(config, log);
    opened.push(hints);
    const secretKey = await loadSecretKey({ directory, database, configured: config.secretKey });
    const dns = openDns({ servers: config.dnsServers });
    opened.push({ stop: async () => dns.close() });
    const metrics = createMetrics();
    const overload = await watchOverload({
      database,
      folders: watchedFolders(config, directory),
      minFreeBytes: config.minFreeBytes,
      nowMs: () => clock.now(),
    });
    opened.push(overload);
    metrics.readQueueFrom(() => overload.queue());
    const disk = { name: 'postrider_disk_free_bytes', help: 'Free space where accepted mail is kept.' };
    metrics.readGaugeFrom(disk, () => overload.freeBytes());
    const store = await openBlobStore(config, { directory, clock });
    opened.push(store);
    const { blobs } = store;
    await checkBlobStore(config, { blobs, database, log });
    const shared = { config, log, clock, metrics, directory, database, blobs, secretKey, dns, overload, hints };
    return { ...shared, stop: () => stopAll(opened) };
  } catch (error) {
    await stopAll(opened);
    throw error;
  }
}

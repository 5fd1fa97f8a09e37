/**
 * Which processes share the database, so that each keeps to its share of a limit that holds for all of them together:
 * connections to one destination, requests of one key. Every node counts those it sees alive and takes an equal part;
 * together they exceed a limit only for the few seconds in which a new one is not known to the others yet.
 *
 * A node that cannot reach the database goes on with the last count: it can neither claim nor accept then. The embedded
 * database has one process, which has everything to itself.
 */

import type { Clock } from '../base/clock.ts';
import { randomText } from '../base/ids.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { beatOperation, leaveOperation, type NodeRow } from './store.ts';

const BEAT_MS = 2_000;
/** Five beats missed: a node that restarts its database connection is not given up for it. */
const SILENT_MS = 10_000;

export interface Nodes extends Running {
  /** The part of a common limit that is this process's, above 0 and at most 1, among the nodes with this role. */
  share(role: string): number;
  /** Nodes that live, this one included. */
  count(): number;
}

export interface NodesOptions {
  database: Database;
  clock: Clock;
  log: Log;
  host: string;
  version: string;
  roles: readonly string[];
}

/** Joins the nodes of a shared database and resolves when this one is counted; rejects when the database does not answer. */
export async function joinNodes(options: NodesOptions): Promise<Nodes> {
  const { database, clock, log, host, version, roles } = options;
  if (database.dialect === 'sqlite') return { share: () => 1, count: () => 1, stop: async () => undefined };
  const id = `${host}/${process.pid}/${randomText(10)}`;
  let living: NodeRow[] = [];
  let counts = new Map<string, number>();

  const beat = async (): Promise<void> => {
    const sign = { id, host, version, roles: roles.join(','), nowMs: clock.now(), silentMs: SILENT_MS };
    const before = living.length;
    living = await database.execute(beatOperation, sign);
    counts = new Map();
    for (const role of living.flatMap((node) => node.roles.split(','))) counts.set(role, (counts.get(role) ?? 0) + 1);
    if (living.length !== before)
      log.info({ nodes: living.map((node) => node.id) }, `${living.length} nodes share the database`);
  };

  await beat();
  let beating: Promise<void> | undefined;
  const timer = setInterval(() => {
    beating ??= beat()
      .catch((error: unknown) => log.warn({ error: (error as Error).message }, 'the nodes could not be counted'))
      .finally(() => {
        beating = undefined;
      });
  }, BEAT_MS);
  timer.unref();
  return {
    share: (role) => 1 / Math.max(1, counts.get(role) ?? 1),
    count: () => living.length,
    stop: async () => {
      clearInterval(timer);
      await beating;
      await database.execute(leaveOperation, id).catch(() => 0);
    },
  };
}

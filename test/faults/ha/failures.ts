/**
 * The failures of a trial. Each breaks the primary, or its ability to stay one, and resolves with its repair, which runs once another
 * primary accepts writes (or, for etcd, after a fixed time).
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { HaCluster, Member } from './cluster.ts';

export const KINDS = ['kill', 'switchover', 'partition', 'split', 'etcd', 'lag'] as const;
export type Kind = (typeof KINDS)[number];

export const KIND_TEXTS: Record<Kind, string> = {
  kill: 'kill -9 of the primary and its Patroni',
  switchover: 'planned switchover',
  partition: 'the primary loses its network',
  split: 'the primary loses etcd and the standbys, but not Postrider',
  etcd: 'etcd is down for 25 s',
  lag: 'the primary crashes while the standbys are behind',
};

/** Longer than the time after which a primary without etcd steps down. */
const ETCD_DOWN_MS = 25_000;
/** How far standbys are behind. */
export const LAG_MS = 5_000;

/** Repairs what the failure broke. */
type Repair = () => Promise<void> | void;

export async function fail(kind: Kind, cluster: HaCluster, mode: 'sync' | 'async'): Promise<Repair> {
  const primary = await cluster.primary();
  switch (kind) {
    case 'kill':
      primary.host.kill();
      return () => primary.start();
    case 'switchover':
      await cluster.switchover();
      return () => undefined;
    case 'partition':
      primary.host.link('down');
      return () => primary.host.link('up');
    case 'split':
      return split(primary, cluster);
    case 'etcd':
      cluster.etcd.kill();
      await wait(ETCD_DOWN_MS);
      cluster.startEtcd();
      return () => undefined;
    case 'lag':
      return mode === 'sync' ? lagOfReplay(primary, cluster) : lagOfReceipt(primary, cluster);
  }
}

const others = (primary: Member, { members }: HaCluster): Member[] => members.filter((one) => one !== primary);

function split(primary: Member, cluster: HaCluster): Repair {
  const far = [cluster.etcd, ...others(primary, cluster).map((one) => one.host)].map((one) => one.address);
  primary.host.drop(far, true);
  return () => primary.host.drop(far, false);
}

/** Synchronous standbys have every commit on disk, but have not replayed the last ones. */
async function lagOfReplay(primary: Member, cluster: HaCluster): Promise<Repair> {
  for (const member of others(primary, cluster)) {
    const client = await member.connect();
    await client.query('SELECT pg_wal_replay_pause()');
    await client.end();
  }
  await wait(LAG_MS);
  return crash(primary);
}

/** Asynchronous standbys get nothing from the primary for a while. */
async function lagOfReceipt(primary: Member, cluster: HaCluster): Promise<Repair> {
  const standbys = others(primary, cluster).map((one) => one.host.address);
  primary.host.drop(standbys, true);
  await wait(LAG_MS);
  const repair = crash(primary);
  primary.host.drop(standbys, false);
  return repair;
}

/** Nothing that the kernel still holds for the others is sent. */
function crash(primary: Member): Repair {
  primary.host.link('down');
  primary.host.kill();
  return () => {
    primary.host.link('up');
    primary.start();
  };
}

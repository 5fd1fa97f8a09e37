/**
 * A highly available PostgreSQL of Debian's packages: members of Patroni, etcd, and HAProxy, each member and etcd on its own host of a
 * network of namespaces. Timeouts are as short as Patroni accepts, so that a trial has many failovers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { freePorts } from '../../kit/free-ports.ts';
import { noNamespaces } from '../../kit/network-namespace.ts';
import { missing } from '../../kit/requirements.ts';
import { waitUntil } from '../../kit/wait-until.ts';
import { type Host, startNetwork } from './network.ts';

/** False if a cluster can run here, otherwise the reason for `{ skip }`. */
export const noPatroni: string | false = missing('patroni', 'etcd', 'haproxy', 'setpriv') || noNamespaces;

/** Seconds, as Patroni names them: 20 is the smallest ttl that it accepts. */
export const TIMING = { ttl: 20, loop_wait: 2, retry_timeout: 5 };

/** A standby that is further behind is not promoted. */
const MAXIMUM_LAG_BYTES = 16_777_216;

/** Debian's servers, the newest last. */
const [PROGRAMS = ''] = globSync('/usr/lib/postgresql/*/bin').sort().slice(-1);
const AS_POSTGRES = ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'];
const START_MS = 240_000;

export interface HaOptions {
  members: number;
  mode: 'sync' | 'async';
  /** Patroni's failsafe_mode: a primary without etcd continues while it reaches all members. */
  failsafe?: boolean;
}

/** One member, as Patroni reports it. */
export interface MemberState {
  name: string;
  role: string;
  state: string;
  timeline?: number;
}

export interface Member {
  host: Host;
  /** Starts Patroni, which starts PostgreSQL. */
  start(): void;
  /** A client of its PostgreSQL, to be ended by the caller. */
  connect(database?: string): Promise<pg.Client>;
}

export interface HaCluster {
  members: Member[];
  etcd: Host;
  /** For files that are removed with the cluster. */
  folder: string;
  /** URL of the database with all members as hosts, and through HAProxy. */
  urls: { hosts: string; haproxy: string };
  /** The members as the first one that answers reports them; empty if none does. */
  states(): Promise<MemberState[]>;
  /** The member that accepts writes by Patroni's knowledge. */
  primary(): Promise<Member>;
  /** Resolves when there is a primary and every other member streams from it, and is synchronous if one should be. */
  healthy(): Promise<void>;
  switchover(): Promise<void>;
  startEtcd(): void;
  close(): Promise<void>;
}

const DATABASE = 'postrider';

/** Starts everything and creates the database; resolves when all members stream. */
export async function startHaCluster(options: HaOptions): Promise<HaCluster> {
  const network = startNetwork();
  const children = new Set<ChildProcess>();
  const run = (name: string, [program = '', ...args]: string[]): ChildProcess => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
    });
    const log = (chunk: Buffer): void => writeFileSync(path.join(network.folder, `${name}.log`), chunk, { flag: 'a' });
    child.stdout?.on('data', log);
    child.stderr?.on('data', log);
    children.add(child);
    child.once('exit', () => children.delete(child));
    return child;
  };
  let isClosing = false;
  const close = async (): Promise<void> => {
    if (isClosing) return;
    isClosing = true;
    for (const host of [...members.map((one) => one.host), etcd]) host.kill();
    for (const child of children) child.kill('SIGKILL');
    await waitUntil('the processes of the cluster to end', () => children.size === 0);
    network.close();
  };
  chmodSync(network.folder, 0o755);
  const etcd = network.add('etcd');
  const hosts = Array.from({ length: options.members }, (_, index) => network.add(`pg${index + 1}`));
  const members = hosts.map((host) => {
    const file = writePatroniConfig({ host, folder: network.folder, subnet: network.subnet, etcd, options });
    return memberOf(host, () => run(host.name, [...host.wrapper, ...AS_POSTGRES, 'patroni', file]));
  });
  const startEtcd = (): void => void run('etcd', etcdCommand(etcd, path.join(network.folder, 'etcd')));
  try {
    startEtcd();
    for (const member of members) member.start();
    const states = (): Promise<MemberState[]> => readStates(members);
    const healthy = (): Promise<void> => waitForHealth(states, options);
    await healthy();
    const primary = (): Promise<Member> => findPrimary(states, members);
    await createDatabase(await primary());
    const [port = 0] = await freePorts(1);
    const proxy = path.join(network.folder, 'haproxy.cfg');
    writeFileSync(proxy, haproxyConfig(port, hosts));
    run('haproxy', ['haproxy', '-db', '-f', proxy]);
    return {
      members,
      etcd,
      folder: network.folder,
      urls: {
        hosts: `postgres://postgres@${hosts.map((one) => `${one.address}:5432`).join(',')}/${DATABASE}`,
        haproxy: `postgres://postgres@127.0.0.1:${port}/${DATABASE}`,
      },
      states,
      primary,
      healthy,
      switchover: async () => {
        const { host } = await primary();
        await post(`http://${host.address}:8008/switchover`, { leader: host.name });
      },
      startEtcd,
      close,
    };
  } catch (error) {
    const logs = ['etcd', ...hosts.map((one) => one.name)].map((one) => tail(path.join(network.folder, `${one}.log`)));
    await close();
    throw new Error(`${(error as Error).message}\n${logs.join('\n')}`, { cause: error });
  }
}

function tail(file: string): string {
  try {
    return `── ${path.basename(file)}\n${readFileSync(file, 'utf8').slice(-2_000)}`;
  } catch {
    return `── ${path.basename(file)}: nothing`;
  }
}

function etcdCommand({ name, address, wrapper }: Host, folder: string): string[] {
  const [client, peer] = [`http://${address}:2379`, `http://${address}:2380`];
  return [
    ...wrapper,
    'etcd',
    '--name',
    name,
    '--data-dir',
    folder,
    '--log-level',
    'warn',
    '--listen-client-urls',
    client,
    '--advertise-client-urls',
    client,
    '--listen-peer-urls',
    peer,
    '--initial-advertise-peer-urls',
    peer,
    '--initial-cluster',
    `${name}=${peer}`,
  ];
}

/** Writes the configuration of one member. YAML contains JSON. */
function writePatroniConfig(one: {
  host: Host;
  folder: string;
  subnet: string;
  etcd: Host;
  options: HaOptions;
}): string {
  const { host, folder, subnet, etcd, options } = one;
  const own = path.join(folder, host.name);
  mkdirSync(own, { mode: 0o777 });
  chmodSync(own, 0o777);
  const parameters = {
    max_connections: 100,
    shared_buffers: '32MB',
    max_wal_size: '256MB',
    wal_keep_size: '128MB',
    wal_log_hints: 'on',
    synchronous_commit: 'on',
  };
  const configuration = {
    scope: 'postrider',
    name: host.name,
    restapi: { listen: `${host.address}:8008`, connect_address: `${host.address}:8008` },
    etcd3: { hosts: [`${etcd.address}:2379`] },
    bootstrap: {
      dcs: {
        ...TIMING,
        maximum_lag_on_failover: MAXIMUM_LAG_BYTES,
        synchronous_mode: options.mode === 'sync',
        failsafe_mode: options.failsafe === true,
        postgresql: { use_pg_rewind: true, use_slots: true, parameters },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }, 'data-checksums'],
      pg_hba: ['local all all trust', ...['all', 'replication'].map((name) => `host ${name} all ${subnet} trust`)],
    },
    postgresql: {
      listen: `${host.address}:5432`,
      connect_address: `${host.address}:5432`,
      data_dir: path.join(own, 'data'),
      bin_dir: PROGRAMS,
      pgpass: path.join(own, 'pgpass'),
      authentication: { superuser: { username: 'postgres' }, replication: { username: 'replicator' } },
      parameters: { unix_socket_directories: own },
    },
  };
  const file = path.join(folder, `${host.name}.yml`);
  writeFileSync(file, JSON.stringify(configuration, null, 2));
  return file;
}

/** One server at a time: the member whose Patroni holds the leader lock. Sessions of another one are closed. */
function haproxyConfig(port: number, hosts: Host[]): string {
  return [
    'global',
    'maxconn 1000',
    'defaults',
    'mode tcp',
    'timeout connect 3s',
    'timeout client 1h',
    'timeout server 1h',
    'listen postgresql',
    `bind 127.0.0.1:${port}`,
    'option httpchk OPTIONS /primary',
    'http-check expect status 200',
    'default-server inter 1s fall 3 rise 1 on-marked-down shutdown-sessions',
    ...hosts.map(({ name, address }) => `server ${name} ${address}:5432 check port 8008`),
    '',
  ].join('\n');
}

function memberOf(host: Host, start: () => void): Member {
  return {
    host,
    start,
    connect: async (database = DATABASE) => {
      const client = new pg.Client({
        host: host.address,
        user: 'postgres',
        database,
        connectionTimeoutMillis: 5_000,
      });
      client.on('error', () => undefined);
      await client.connect();
      return client;
    },
  };
}

async function createDatabase(primary: Member): Promise<void> {
  const client = await primary.connect('postgres');
  await client.query(`CREATE DATABASE ${DATABASE}`);
  await client.end();
}

/** A member that lost the others still names an earlier primary: the report with the latest timeline is right. */
async function readStates(members: Member[]): Promise<MemberState[]> {
  const read = async ({ host }: Member): Promise<MemberState[]> => {
    const answer = await fetch(`http://${host.address}:8008/cluster`, { signal: AbortSignal.timeout(2_000) });
    return ((await answer.json()) as { members: MemberState[] }).members;
  };
  const reports = await Promise.all(members.map((member) => read(member).catch(() => [])));
  const timelineOf = (report: MemberState[]): number => report.find(isPrimary)?.timeline ?? -1;
  return reports.toSorted((one, other) => timelineOf(other) - timelineOf(one))[0] ?? [];
}

const isPrimary = ({ role, state }: MemberState): boolean => role === 'leader' && state === 'running';

async function findPrimary(states: () => Promise<MemberState[]>, members: Member[]): Promise<Member> {
  return waitUntil(
    'a primary',
    async () => {
      const name = (await states()).find(isPrimary)?.name;
      return members.find((one) => one.host.name === name);
    },
    START_MS,
  );
}

async function waitForHealth(states: () => Promise<MemberState[]>, options: HaOptions): Promise<void> {
  let last: MemberState[] = [];
  await waitUntil(
    'a healthy cluster',
    async () => {
      await wait(250);
      last = await states();
      const leader = last.find(isPrimary);
      // Patroni 3.0 calls a streaming standby running; it is on the primary's timeline.
      const others = last.filter(
        (one) => /^(running|streaming)$/.test(one.state) && /replica|sync_standby/.test(one.role),
      );
      const isSynchronous = options.mode === 'async' || others.some((one) => one.role === 'sync_standby');
      return (
        isSynchronous &&
        others.length === options.members - 1 &&
        others.every((one) => one.timeline === leader?.timeline)
      );
    },
    START_MS,
  ).catch((error: Error) => {
    throw new Error(`${error.message}: ${JSON.stringify(last)}`);
  });
}

async function post(url: string, body: unknown): Promise<void> {
  const answer = await fetch(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    signal: AbortSignal.timeout(60_000),
  });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
}

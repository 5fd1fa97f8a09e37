/**
 * A real object store with an S3 interface: OpenStack Swift with its s3api, as packaged by Debian. Four processes (proxy, account,
 * container, object) on free loopback ports with one temporary directory and rings of one device; stopped by their process ids and removed
 * by close(). Each server is one process and does not need root. tempauth requires a memcached address, but nothing listens there: Swift
 * then works without it.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { freePorts } from './free-ports.ts';
import { waitUntil } from './wait-until.ts';

export interface Swift {
  /** Address of the S3 interface, path style, region us-east-1. */
  endpoint: string;
  port: number;
  accessKeyId: string;
  secretAccessKey: string;
  /** The logs of the four servers. */
  log(): string;
  close(): Promise<void>;
}

/** Programs of the packages swift-proxy, swift-account, swift-container and swift-object. */
export const SWIFT_PROGRAMS = [
  'swift-proxy-server',
  'swift-account-server',
  'swift-container-server',
  'swift-object-server',
];

/** Buckets are also reachable as host names below this domain. */
export const STORAGE_DOMAIN = 'swift.test';

const BACKENDS = ['account', 'container', 'object'] as const;
/** Keys per listing page: few, so that tests get several pages. */
const PAGE_SIZE = 100;
const START_TIMEOUT_MS = 60_000;

/** Builds the three rings in one process (Debian's Python has Swift's modules) instead of nine with swift-ring-builder. */
const RINGS = `
import sys
from swift.common.ring import RingBuilder
folder = sys.argv[1]
for name, port in zip(('account', 'container', 'object'), sys.argv[2:]):
    builder = RingBuilder(1, 1, 0)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'weight': 1, 'device': 'disk', 'meta': '',
                     'ip': '127.0.0.1', 'port': int(port), 'replication_ip': '127.0.0.1', 'replication_port': int(port)})
    builder.rebalance()
    builder.get_ring().save(folder + '/' + name + '.ring.gz')
`;

function defaults(folder: string, port: number): string {
  return `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
bind_timeout = 2
user = ${os.userInfo().username}
swift_dir = ${folder}
devices = ${folder}/devices
mount_check = false
workers = 0
servers_per_port = 0
disable_fallocate = true
fallocate_reserve = 0
`;
}

function proxyConfig(folder: string, options: { port: number; secret: string }): string {
  return `${defaults(folder, options.port)}
[pipeline:main]
pipeline = catch_errors gatekeeper cache listing_formats s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:tempauth]
use = egg:swift#tempauth
user_postrider_test = ${options.secret} .admin
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
storage_domain = ${STORAGE_DOMAIN}
max_bucket_listing = ${PAGE_SIZE}
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
error_suppression_limit = 0
error_suppression_interval = 86400
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:slo]
use = egg:swift#slo
`;
}

const serverConfig = (folder: string, name: string, port: number): string => `${defaults(folder, port)}
[pipeline:main]
pipeline = ${name}-server
[app:${name}-server]
use = egg:swift#${name}
`;

/** The variable with the run's Swift for the test files, as JSON. */
export const RUN_SWIFT = 'TEST_SWIFT_RUN';

/** Returns the Swift of the run, or starts one. Throws with the servers' logs if it does not start. */
export async function startSwift(): Promise<Swift> {
  const given = process.env[RUN_SWIFT];
  if (given) return { ...(JSON.parse(given) as Swift), log: () => '', close: async () => undefined };
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-swift-'));
  const at = (name: string): string => path.join(folder, name);
  const children: ChildProcess[] = [];
  let said = '';
  const close = async (): Promise<void> => {
    await Promise.all(children.map(end));
    rmSync(folder, { recursive: true, force: true });
  };
  const killAll = (): void => {
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', killAll);
  try {
    mkdirSync(at('devices/disk'), { recursive: true });
    const [proxyPort = 0, ...backendPorts] = await freePorts(4);
    writeFileSync(
      at('swift.conf'),
      '[swift-hash]\nswift_hash_path_prefix = postrider\nswift_hash_path_suffix = test\n[storage-policy:0]\nname = one\ndefault = yes\n',
    );
    const secret = 'only-for-tests';
    writeFileSync(at('proxy-server.conf'), proxyConfig(folder, { port: proxyPort, secret }));
    for (const [index, name] of BACKENDS.entries()) {
      writeFileSync(at(`${name}-server.conf`), serverConfig(folder, name, backendPorts[index]!));
    }
    execFileSync('/usr/bin/python3', ['-c', RINGS, folder, ...backendPorts.map(String)], {
      stdio: 'pipe',
      timeout: 60_000,
    });
    for (const name of ['proxy', ...BACKENDS]) {
      const child = spawn(`swift-${name}-server`, [at(`${name}-server.conf`), '--verbose'], {
        cwd: folder,
        env: { ...process.env, PATH: `${process.env.PATH}:/usr/bin:/usr/sbin` },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      child.on('error', (error) => {
        said += `${name}: ${error.message}\n`;
      });
      for (const stream of [child.stdout, child.stderr]) {
        stream?.on('data', (chunk) => {
          said = `${said}${chunk}`.slice(-200_000);
        });
      }
      children.push(child);
    }
    await waitUntil(
      'Swift to listen',
      async () => {
        const dead = children.find((child) => child.exitCode !== null);
        if (dead) throw new Error(`${dead.spawnfile} ended with ${dead.exitCode}`);
        const up = await Promise.all([proxyPort, ...backendPorts].map(listens));
        return up.every(Boolean);
      },
      START_TIMEOUT_MS,
    );
    return {
      endpoint: `http://127.0.0.1:${proxyPort}`,
      port: proxyPort,
      accessKeyId: 'postrider:test',
      secretAccessKey: secret,
      log: () => said,
      close: async () => {
        process.off('exit', killAll);
        await close();
      },
    };
  } catch (error) {
    await close();
    const { stderr = '' } = error as { stderr?: Buffer | string };
    throw new Error(`Swift did not start: ${(error as Error).message}\n${stderr}${said.slice(-4000)}`);
  }
}

function end(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return resolve();
    child.once('exit', () => resolve());
    child.kill('SIGKILL');
  });
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      resolve(true);
      socket.destroy();
    });
    socket.once('error', () => resolve(false));
  });
}

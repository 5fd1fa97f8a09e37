/**
 * A private DNS for a test, on loopback: Knot serves zones, signed if requested, and Unbound resolves and validates them. Keys, signatures,
 * NSEC and NSEC3, and the validation are real. The root is not queried: Unbound has the key of each signed zone as its anchor. Both are
 * ended by their process ids, and the directory is removed.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePorts } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { waitUntil } from '../kit/wait-until.ts';

export interface PrivateZone {
  /** Lines of a zone file without SOA and NS, names relative to the zone. */
  records: string[];
  /** Signs the zone, with this kind of proof of absence; unsigned if omitted. */
  signed?: 'nsec' | 'nsec3';
  /** The resolver has a different key for the zone, so that validation always fails. */
  bogus?: true;
}

export interface PrivateDns {
  /** The validating resolver, as POSTRIDER_DNS_SERVERS takes it. */
  resolver: string;
  /** The same resolver in the year 2099, when every signature has expired. */
  laterResolver: string;
  /** Authoritative for all zones. */
  authority: string;
  close(): Promise<void>;
}

/** False when both are installed, else the reason for `{ skip }`; throws in CI. */
export const noPrivateDns = (): string | false => missing('knotd', 'keymgr', 'unbound');

const SBIN = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
/** As RRSIG records have it. */
const LATER = '20990101000000';
/** A digest of another key, which matches no signed zone. */
const OTHER_DIGEST = '0'.repeat(64);

function zoneFile(zone: string, { records }: PrivateZone): string {
  const head = [`$ORIGIN ${zone}.`, '$TTL 300', '@ SOA ns root 1 3600 600 86400 120', '@ NS ns', 'ns A 127.0.0.1'];
  return `${[...head, ...records].join('\n')}\n`;
}

function knotConfig(folder: string, options: { port: number; zones: Record<string, PrivateZone> }): string {
  const policy = (id: string, nsec3: 'on' | 'off'): string[] => [
    `  - id: ${id}`,
    '    algorithm: ecdsap256sha256',
    '    single-type-signing: on',
    `    nsec3: ${nsec3}`,
  ];
  const zones = Object.entries(options.zones).flatMap(([zone, { signed }]) => [
    `  - domain: ${zone}`,
    `    file: ${path.join(folder, `${zone}.zone`)}`,
    ...(signed ? ['    dnssec-signing: on', `    dnssec-policy: ${signed}`] : []),
  ]);
  return [
    'server:',
    `    rundir: ${folder}`,
    `    listen: 127.0.0.1@${options.port}`,
    'log:',
    `  - target: ${path.join(folder, 'knot.log')}`,
    '    any: info',
    'database:',
    `    storage: ${path.join(folder, 'db')}`,
    'policy:',
    ...policy('nsec', 'off'),
    ...policy('nsec3', 'on'),
    'template:',
    '  - id: default',
    `    storage: ${folder}`,
    '    zonefile-sync: -1',
    '    journal-content: none',
    'zone:',
    ...zones,
    '',
  ].join('\n');
}

interface UnboundOptions {
  port: number;
  /** An address on which it also listens on port 53. */
  address?: string;
  authorityPort: number;
  /** DS records. */
  anchors: string[];
  zones: Record<string, PrivateZone>;
  date?: string;
}

function unboundConfig(folder: string, { port, address, authorityPort, anchors, zones, date }: UnboundOptions): string {
  const names = Object.keys(zones);
  return [
    'server:',
    ...(address === undefined ? [] : [`interface: ${address}@53`]),
    'interface: 127.0.0.1',
    `port: ${port}`,
    'do-daemonize: no',
    'username: ""',
    'chroot: ""',
    'pidfile: ""',
    `directory: "${folder}"`,
    `logfile: "unbound-${port}.log"`,
    'use-syslog: no',
    'verbosity: 1',
    'val-log-level: 2',
    'num-threads: 1',
    'do-not-query-localhost: no',
    'do-ip6: no',
    'module-config: "validator iterator"',
    'root-hints: ""',
    'qname-minimisation: no',
    'minimal-responses: yes',
    ...names.map((name) => `local-zone: "${name.split('.').at(-1)}." nodefault`),
    ...names.filter((name) => !zones[name]!.signed).map((name) => `domain-insecure: "${name}"`),
    ...anchors.map((anchor) => `trust-anchor: "${anchor}"`),
    ...(date === undefined ? [] : [`val-override-date: "${date}"`]),
    'remote-control:',
    'control-enable: no',
    ...names.flatMap((name) => ['stub-zone:', `name: "${name}"`, `stub-addr: 127.0.0.1@${authorityPort}`]),
    '',
  ].join('\n');
}

/** The DS record of a zone's key, or of a nonexistent key. */
function anchorOf(config: string, zone: string, { bogus }: PrivateZone): string {
  const text = execFileSync('keymgr', ['-c', config, zone, 'ds'], { env: SBIN, encoding: 'utf8' });
  const sha256 = text.split('\n').find((line) => / 13 2 /.test(line));
  if (sha256 === undefined) throw new Error(`no DS record of ${zone}: ${text}`);
  return bogus ? sha256.replace(/[0-9a-f]{64}$/i, OTHER_DIGEST) : sha256;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

/** Starts both, if requested with the resolver also on port 53 of an address; rejects with their logs if one does not start. */
export async function startPrivateDns(
  zones: Record<string, PrivateZone>,
  options: { resolverAddress?: string } = {},
): Promise<PrivateDns> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-dns-'));
  const [authorityPort, port, laterPort] = (await freePorts(3)) as [number, number, number];
  mkdirSync(path.join(folder, 'db'));
  const config = path.join(folder, 'knot.conf');
  writeFileSync(config, knotConfig(folder, { port: authorityPort, zones }));
  for (const [name, zone] of Object.entries(zones))
    writeFileSync(path.join(folder, `${name}.zone`), zoneFile(name, zone));
  const children: ChildProcess[] = [];
  const output = path.join(folder, 'output.log');
  appendFileSync(output, '');
  const start = (program: string, args: string[]): void => {
    const child = spawn(program, args, { env: SBIN, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => appendFileSync(output, chunk));
    child.on('error', (error) => appendFileSync(output, String(error)));
    children.push(child);
  };
  const close = async (): Promise<void> => {
    await Promise.all(children.map(end));
    rmSync(folder, { recursive: true, force: true });
  };
  const logs = (): string => {
    const files = ['output.log', 'knot.log', `unbound-${port}.log`, `unbound-${laterPort}.log`];
    return files.map((file) => readIfThere(path.join(folder, file))).join('');
  };
  try {
    start('knotd', ['-c', config]);
    const signed = Object.entries(zones).filter(([, zone]) => zone.signed);
    const isServing = (): boolean => logs().includes('server started') || logs().includes('started in the foreground');
    const isSigned = (): boolean => signed.every(([name]) => logs().includes(`[${name}.] DNSSEC, successfully signed`));
    await waitUntil('Knot to serve signed zones', () => isServing() && isSigned());
    const anchors = signed.map(([name, zone]) => anchorOf(config, name, zone));
    const shared = { authorityPort, anchors, zones };
    for (const [number, date] of [[port], [laterPort, LATER]] as [number, string?][]) {
      const file = path.join(folder, `unbound-${number}.conf`);
      const where = number === port && options.resolverAddress ? { address: options.resolverAddress } : {};
      const dated = date === undefined ? {} : { date };
      writeFileSync(file, unboundConfig(folder, { ...shared, ...where, port: number, ...dated }));
      start('unbound', ['-d', '-c', file]);
      await waitUntil('Unbound to start', () =>
        readIfThere(path.join(folder, `unbound-${number}.log`)).includes('start of service'),
      );
    }
  } catch (error) {
    const said = logs();
    await close();
    throw new Error(`${(error as Error).message}\n${said}`, { cause: error });
  }
  const address = (number: number): string => `127.0.0.1:${number}`;
  return { resolver: address(port), laterResolver: address(laterPort), authority: address(authorityPort), close };
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

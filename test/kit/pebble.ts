/**
 * A real ACME server: Let's Encrypt's Pebble (Debian's package), a separate process on loopback, which resolves names with a fake DNS and
 * uses its own port for challenges. It forgets everything when it ends; its address stays the same.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Agent, fetch as fetchBy } from 'undici';
import { type FakeDns, type FakeZone, fakeDns } from './fake-dns.ts';
import { freePorts } from './free-ports.ts';
import { missing } from './requirements.ts';
import { testCertificate } from './test-certificate.ts';
import { waitUntil } from './wait-until.ts';

export const noPebble = missing('pebble', 'openssl');

interface PebbleOptions {
  /** Names that resolve to loopback. */
  names: string[];
  /** Port of challenges instead of 80. */
  httpPort: number;
  lifetimeSeconds?: number;
  /** Percentage of valid nonces that it rejects. */
  nonceReject?: number;
}

export interface Pebble {
  /** URL of its directory. */
  directory: string;
  /** CA file of its https server, for NODE_EXTRA_CA_CERTS. */
  caFile: string;
  /** The names it can resolve; may be changed at any time. */
  zone: FakeZone;
  /** A fetch that trusts it. */
  fetch: typeof fetch;
  /** Returns the root of its certificates in PEM; it changes at each start. */
  root(): Promise<string>;
  /** Its log since the first start. */
  readonly log: string;
  /** Counts matches in its log. */
  count(what: RegExp): number;
  start(): Promise<void>;
  kill(): Promise<void>;
  close(): Promise<void>;
}

/** Prepares it without starting it. */
export async function preparePebble(options: PebbleOptions): Promise<Pebble> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-pebble-'));
  const [port = 0, management = 0, unused = 0] = await freePorts(3);
  const zone: FakeZone = Object.fromEntries(options.names.map((name) => [name, { A: ['127.0.0.1'] }]));
  const dns: FakeDns = await fakeDns(zone);
  const own = testCertificate(['localhost', '127.0.0.1']);
  const file = (name: string, content: string): string => {
    const at = path.join(folder, name);
    writeFileSync(at, content);
    return at;
  };
  const caFile = file('cert.pem', own.cert);
  const config = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: caFile,
    privateKey: file('key.pem', own.key),
    httpPort: options.httpPort,
    tlsPort: unused,
    ...(options.lifetimeSeconds && { certificateValidityPeriod: options.lifetimeSeconds }),
  };
  const configFile = file('config.json', JSON.stringify({ pebble: config }));
  const dispatcher = new Agent({ connect: { ca: own.cert }, pipelining: 0 });
  const fetchHere = ((url: string, init: object) => fetchBy(url, { ...init, dispatcher })) as unknown as typeof fetch;
  const directory = `https://localhost:${port}/dir`;
  let child: ChildProcess | undefined;
  let log = '';

  const start = async (): Promise<void> => {
    const started = spawn('pebble', ['-config', configFile, '-dnsserver', dns.server, '-strict'], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        PEBBLE_VA_NOSLEEP: '1',
        PEBBLE_WFE_NONCEREJECT: String(options.nonceReject ?? 0),
        // Each order is validated, so that tests can count.
        PEBBLE_AUTHZREUSE: '0',
      },
    });
    child = started;
    for (const stream of [started.stdout, started.stderr]) stream.on('data', (chunk) => (log += chunk));
    await waitUntil('pebble to answer', async () => {
      if (started.exitCode !== null) throw new Error(`pebble ended: ${log.slice(-2_000)}`);
      return fetchHere(directory, {}).then(
        (response) => response.ok,
        () => false,
      );
    });
  };
  const kill = async (): Promise<void> => {
    const running = child;
    child = undefined;
    if (running === undefined || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once('exit', resolve));
    running.kill('SIGKILL');
    await ended;
  };
  const onExit = (): void => void child?.kill('SIGKILL');
  process.once('exit', onExit);
  return {
    directory,
    caFile,
    zone,
    fetch: fetchHere,
    root: async () => (await fetchHere(`https://localhost:${management}/roots/0`, {})).text(),
    get log() {
      return log;
    },
    count: (what) => log.split('\n').filter((line) => what.test(line)).length,
    start,
    kill,
    close: async () => {
      await kill();
      process.off('exit', onExit);
      await dispatcher.close();
      await dns.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

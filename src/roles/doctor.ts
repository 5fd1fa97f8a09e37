/**
 * Looks at everything that mail depends on and says what is well, what to watch and what is broken, with a remedy: for
 * `postrider doctor`, which opens the database itself, and for a serving process, which has it open. Changes nothing; waits for no disk
 * and no peer without letting others work. A serving process answers with what it found at most half a minute ago.
 */
import { access, constants, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { Unavailable } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import type { Config } from '../config.ts';
import { domainsToCheckOperation, lookUpRecords, type SenderDomain } from '../domains/domains.ts';
import { isHttps } from '../engagement/engagement.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { describeS3Location } from '../storage/blobs/s3-location.ts';
import { dataDirectory, marksOf } from '../storage/data-directory.ts';
import { probeBlobStore } from './blob-store.ts';
import type { Parts } from './parts.ts';

export interface Check {
  name: string;
  status: 'ok' | 'warn' | 'fail';
  message: string;
  remedy?: string;
}

export const DOMAINS_CHECKED = 20;
const OLDEST_NODE = 26;

function checkConfiguration({ unknownSettings }: Config): Check[] {
  const checks: Check[] = [{ name: 'configuration', status: 'ok', message: 'every setting is valid' }];
  for (const name of unknownSettings) {
    checks.push({
      name: 'configuration',
      status: 'warn',
      message: `${name} is not a setting of this version`,
      remedy: 'Look for a misspelling; docs/config.md lists all settings.',
    });
  }
  const major = Number(process.versions.node.split('.')[0]);
  checks.push(
    major >= OLDEST_NODE
      ? { name: 'runtime', status: 'ok', message: `Node ${process.version}` }
      : {
          name: 'runtime',
          status: 'fail',
          message: `Node ${process.version}`,
          remedy: `Install Node ${OLDEST_NODE} or newer.`,
        },
  );
  return checks;
}

/** What links in mail begin with. */
function checkBaseUrl({ roles, baseUrl }: Config): Check[] {
  const name = 'public address';
  if (!roles.includes('api')) return [];
  if (baseUrl !== undefined && isHttps(baseUrl)) return [{ name, status: 'ok', message: baseUrl }];
  const what = baseUrl === undefined ? 'POSTRIDER_BASE_URL is not set' : `${baseUrl} is no https address`;
  return [
    {
      name,
      status: 'warn',
      message: `${what}: mail goes out without List-Unsubscribe headers, which mail programs follow over https only`,
      remedy: 'Set POSTRIDER_BASE_URL to the https address under which recipients reach this service.',
    },
  ];
}

async function checkDataDirectory(config: Config): Promise<Check[]> {
  const name = 'data directory';
  const { path: folder } = dataDirectory(config.dataDir);
  const found = await statOf(folder);
  if (!found) {
    const remedy = 'Start the service once, run postrider migrate, or set POSTRIDER_DATA_DIR.';
    return [{ name, status: 'fail', message: `${folder} does not exist`, remedy }];
  }
  try {
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return [
      {
        name,
        status: 'fail',
        message: `${folder} is not writable for this user`,
        remedy: 'Run as the user of the service.',
      },
    ];
  }
  const checks: Check[] = [];
  const { mode, uid } = found;
  if ((mode & 0o077) !== 0) {
    const message = `${folder} can be read by others (mode ${(mode & 0o777).toString(8)})`;
    checks.push({ name, status: 'warn', message, remedy: `chmod 700 ${folder}` });
  }
  for (const one of ['postrider.db', 'postrider.db-wal', 'blobs', 'secret.key']) {
    const file = path.join(folder, one);
    if (((await statOf(file))?.uid ?? uid) !== uid) {
      const message = `${file} belongs to another user than the directory`;
      checks.push({ name, status: 'warn', message, remedy: `chown it to the user of the service (uid ${uid}).` });
    }
  }
  return checks.length > 0 ? checks : [{ name, status: 'ok', message: folder }];
}

/** Undefined where there is none. */
async function statOf(file: string): Promise<{ mode: number; uid: number } | undefined> {
  return stat(file).catch(() => undefined);
}

/** The disks under the data directory and under a folder of blobs elsewhere, against the marks at which intake stops. */
async function checkDisk(config: Config): Promise<Check[]> {
  const blobs = config.blobs.kind === 'disk' ? config.blobs.folder : undefined;
  const { path: folder, blobsFolder } = dataDirectory(config.dataDir, blobs);
  const checks: Check[] = [];
  for (const one of blobs === undefined ? [folder] : [folder, blobsFolder]) {
    if (!(await statOf(one))) continue;
    const { freeBytes, neededBytes, freeInodes, neededInodes } = await marksOf(one, config.minFreeBytes);
    const where = one === folder ? '' : ` (${one})`;
    const [free, needed] = [freeBytes, neededBytes].map((bytes) => `${Math.round(bytes / 1e6)} MB`);
    checks.push({
      ...{ name: 'disk space', message: `${free} free, intake stops below ${needed}${where}` },
      ...levelOf({ free: freeBytes, needed: neededBytes }, 'Free space'),
    });
    if (neededInodes === 0) continue;
    checks.push({
      name: 'inodes',
      message: `${freeInodes} free, intake stops below ${Math.ceil(neededInodes)}${where}`,
      ...levelOf({ free: freeInodes, needed: neededInodes }, 'Remove small files'),
    });
  }
  return checks;
}

function levelOf(space: { free: number; needed: number }, remedy: string): Pick<Check, 'status' | 'remedy'> {
  if (space.free < space.needed) return { status: 'fail', remedy: `${remedy}, or use a larger disk.` };
  if (space.free < 2 * space.needed) return { status: 'warn', remedy: `${remedy} before it runs out.` };
  return { status: 'ok' };
}

/** A domain whose mail servers stand for the world: where port 25 leads there, direct delivery works. */
const PROBE_DOMAIN = 'gmail.com';
const CONNECT_TIMEOUT_MS = 5_000;

async function withDns<T>(config: Config, ask: (dns: Dns) => Promise<T>): Promise<T> {
  const dns = openDns({ servers: config.dnsServers, dnssec: config.dnssec });
  try {
    return await ask(dns);
  } finally {
    dns.close();
  }
}

/** Undefined when the connection stands, otherwise what happened instead. */
function tryConnect(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_TIMEOUT_MS });
    const end = (problem: string | undefined): void => {
      socket.destroy();
      resolve(problem);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end(`no answer within ${CONNECT_TIMEOUT_MS / 1000} s`));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}

async function checkDns(config: Config): Promise<Check[]> {
  const name = 'DNS';
  const servers = config.dnsServers.length > 0 ? config.dnsServers.join(', ') : "the system's servers";
  const answer = await withDns(config, (dns) => dns.resolveMx(PROBE_DOMAIN));
  if (answer.status === 'found') return [{ name, status: 'ok', message: `${servers} answer` }];
  const said = answer.status === 'temporary' ? answer.cause : answer.status;
  const remedy = 'Check the network and POSTRIDER_DNS_SERVERS.';
  // With a relay only webhooks and domain verification depend on it.
  const status = config.route.kind === 'relay' ? 'warn' : 'fail';
  return [{ name, status, message: `${servers}: ${said} for ${PROBE_DOMAIN}`, remedy }];
}

async function checkRoute(config: Config): Promise<Check[]> {
  if (config.route.kind === 'relay') {
    const { host, port } = config.route.relay;
    const name = 'relay';
    const problem = await tryConnect(host, port);
    if (problem === undefined) return [{ name, status: 'ok', message: `${host}:${port} accepts connections` }];
    const remedy = 'Check POSTRIDER_ROUTE, the relay and the firewall between.';
    return [{ name, status: 'fail', message: `${host}:${port}: ${problem}`, remedy }];
  }
  const name = `port ${config.mxPort}`;
  const answer = await withDns(config, (dns) => dns.resolveMx(PROBE_DOMAIN));
  const host = answer.status === 'found' ? answer.value.hosts[0]?.host : undefined;
  if (host === undefined) {
    const message = `could not be tried: no mail server of ${PROBE_DOMAIN} found`;
    return [{ name, status: 'warn', message, remedy: 'Fix the DNS first.' }];
  }
  const problem = await tryConnect(host, config.mxPort);
  if (problem === undefined) return [{ name, status: 'ok', message: `${host} accepts connections` }];
  const remedy =
    'Many networks block outgoing port 25: ask your provider to open it, or set POSTRIDER_ROUTE to a relay.';
  return [{ name, status: 'fail', message: `${host}: ${problem}`, remedy }];
}

async function checkDomains(config: Config, domains: SenderDomain[]): Promise<Check[]> {
  return withDns(config, (dns) =>
    Promise.all(
      domains.map(async (domain): Promise<Check> => {
        const name = `domain ${domain.domain}`;
        const records = await lookUpRecords(domain, { dns, sendingHost: config.smtpHostname });
        const missing = records.filter((record) => record.status !== 'verified');
        if (missing.length === 0) return { name, status: 'ok', message: `${domain.status}, every record is published` };
        const notes = missing.map(({ purpose, status, name: at, note }) => note ?? `${purpose} ${status} at ${at}`);
        const message = `${domain.status}; ${notes.join(' ')}`;
        return {
          name,
          status: 'warn',
          message,
          remedy: `postrider domain verify ${domain.id} shows the values to publish.`,
        };
      }),
    ),
  );
}

/** Nothing for files in the data directory, which is looked at by itself. */
async function checkBlobs(config: Config, probe: DoctorSubject['probeBlobs']): Promise<Check[]> {
  const name = 'blob storage';
  const { blobs: address } = config;
  if (address.kind === 'disk' && address.folder === undefined) return [];
  const where = address.kind === 'disk' ? `folder ${address.folder}` : describeS3Location(address.location);
  try {
    await probe();
    return [{ name, status: 'ok', message: `${where}: takes, gives back, lists and removes` }];
  } catch (error) {
    const remedy =
      address.kind === 'disk'
        ? 'Mount the folder and make it writable for the user of the service.'
        : 'Check POSTRIDER_BLOB_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of the key; see docs/s3.md.';
    return [{ name, status: 'fail', message: `${where}: ${(error as Error).message}`, remedy }];
  }
}

/** What is looked at. */
export interface DoctorSubject {
  config: Config;
  /** What there is to say of the database, the secret key and the service; and the domains to look at. */
  database(): Promise<{ checks: Check[]; domains: SenderDomain[] }>;
  /** Writes, reads, lists and removes a blob; rejects where that does not work. */
  probeBlobs(): Promise<void>;
}

export interface Diagnosis {
  healthy: boolean;
  checks: Check[];
}

export async function examine({ config, database, probeBlobs }: DoctorSubject): Promise<Diagnosis> {
  const local = [
    ...checkConfiguration(config),
    ...checkBaseUrl(config),
    ...(await checkDataDirectory(config)),
    ...(await checkDisk(config)),
  ];
  const { checks, domains } = await database();
  const network = await Promise.all([
    checkBlobs(config, probeBlobs),
    checkDns(config),
    checkRoute(config),
    checkDomains(config, domains),
  ]);
  const all = [...local, ...checks, ...network.flat()];
  return { healthy: all.every((check) => check.status !== 'fail'), checks: all };
}

const KEPT_MS = 30_000;

/** Of the process that serves, which was started with a database that is up to date and a key that fits it. */
export function createDoctor({ config, database, blobs, clock }: Parts): () => Promise<Diagnosis> {
  const checkDatabase: DoctorSubject['database'] = async () => {
    const name = 'database';
    try {
      const domains = await database.execute(domainsToCheckOperation, DOMAINS_CHECKED);
      const checks: Check[] = [
        { name, status: 'ok', message: 'up to date' },
        { name: 'service', status: 'ok', message: `serving as process ${process.pid}` },
        { name: 'secret key', status: 'ok', message: 'fits the database' },
      ];
      return { checks, domains };
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      return { checks: [{ name, status: 'fail', message: error.message }], domains: [] };
    }
  };
  const subject = { config, database: checkDatabase, probeBlobs: () => probeBlobStore(blobs) };
  const cache = createFreshCache<null, Diagnosis>({
    ...{ clock, maxAgeMs: KEPT_MS, limit: 1, absentLimit: 0 },
    read: () => examine(subject),
  });
  return async () => (await cache.get('', null))!;
}

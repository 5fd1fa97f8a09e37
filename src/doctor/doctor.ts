/**
 * Checks everything that sending and receiving depend on, and reports problems with their fixes: for `postrider doctor`, which opens the
 * database itself, and for a running service. Changes nothing and does not block other work. Checks that need the network (DNS, mail
 * servers, blocklists, the web) are skipped if the settings or the caller disable them.
 */
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { domainsToCheckOperation, type SenderDomain } from '../domains/domains.ts';
import { LAG_WARN_SECONDS } from '../events/events.ts';
import { openDns } from '../net/dns.ts';
import { describeS3Location } from '../storage/blobs/s3-location.ts';
import type { Database } from '../storage/database.ts';
import { type KeptElsewhere, readKeptElsewhere } from '../storage/kept-elsewhere.ts';
import { type LogBlocker, logBlockerOperation } from '../storage/meta-store.ts';
import { type ServerHealth, serverHealthOperation } from '../storage/server-health.ts';
import { checkHelo, checkReverse, outgoingAddresses, type Sources, sourcesOf } from './addresses.ts';
import { checkBlocklists } from './blocklists.ts';
import { checkPublicAddress, checkSmtpCertificate } from './certificates.ts';
import { type Check, fail, ok, skip, warn } from './check.ts';
import { checkClock } from './clock.ts';
import { checkBaseUrl, checkConfiguration, checkRetention } from './configuration.ts';
import { checkDatabaseServer } from './database-server.ts';
import { checkDataDirectory, checkDisk } from './disk.ts';
import { checkDkimKeys, checkDomains } from './domains.ts';
import { checkInbound } from './inbound.ts';
import { checkDns, checkPort, checkRelay, type Probing } from './mail-servers.ts';
import { checkProxies, readUntrustedProxy, type UntrustedProxy } from './proxies.ts';
import { checkBackup, checkSecretKeyCopy } from './secrets.ts';
import { checkReturnPath, checkTlsReports, type ReportFacts, readReportFacts } from './tls-reports.ts';

export type { Check } from './check.ts';
export { recordUntrustedProxy } from './proxies.ts';
export { ageOfRecord, checkSecretKey } from './secrets.ts';

const DOMAINS_CHECKED = 20;

/** Facts from the database that the checks use. */
export interface Facts extends KeptElsewhere {
  domains: SenderDomain[];
  /** Set if a domain for TLS reports is configured. */
  reports?: ReportFacts | undefined;
  /** The last proxy that the settings do not trust. */
  proxy?: UntrustedProxy | undefined;
  /** The transaction that blocks the log of events. */
  logBlocker?: LogBlocker | undefined;
  /** Null for SQLite. */
  serverHealth?: ServerHealth | null;
}

export async function readFacts(database: Database, config: Config): Promise<Facts> {
  const domains = await database.execute(domainsToCheckOperation, DOMAINS_CHECKED);
  return {
    domains,
    reports: await readReportFacts(database, config),
    proxy: await readUntrustedProxy(database),
    logBlocker: await database.execute(logBlockerOperation, null),
    serverHealth: await database.execute(serverHealthOperation, null),
    ...(await readKeptElsewhere(database)),
  };
}

/** A named check that needs the network. */
export interface NetworkCheck {
  name: string;
  ask(): Promise<Check[]>;
  /** Whether the check contacts servers of other operators, which must not be queried on every call. */
  isThirdParty?: true;
}

export interface Subject {
  config: Config;
  clock: Clock;
  /** Checks the database, the secret key, and the service; no facts if the database cannot be read. */
  database(): Promise<{ checks: Check[]; facts: Facts | undefined }>;
  /** Writes, reads, lists, and deletes a blob; rejects if that fails. */
  probeBlobs(): Promise<void>;
  network: boolean;
  /** Runs a network check or returns its cached result; runs it by default. */
  answered?(asking: NetworkCheck): Promise<Check[]>;
  /** Source addresses, instead of those of the settings or the system. */
  localAddresses?: readonly string[];
}

export interface Diagnosis {
  healthy: boolean;
  checks: Check[];
}

export async function examine(subject: Subject): Promise<Diagnosis> {
  const { config, clock, network } = subject;
  const nowMs = clock.now();
  const own = [
    ...checkConfiguration(config),
    ...checkBaseUrl(config),
    ...checkRetention(config),
    ...(await checkDataDirectory(config)),
    ...(await checkDisk(config)),
    ...checkSmtpCertificate(config, nowMs),
  ];
  const { checks, facts } = await subject.database();
  const stored = facts && [
    ...checkSecretKeyCopy(config, facts),
    ...checkBackup(config, facts, nowMs),
    ...checkProxies(config, facts.proxy, nowMs),
    ...checkDkimKeys(facts.domains),
    ...checkTlsReports(config, facts.reports),
    ...checkEventLog(facts.logBlocker),
    ...checkDatabaseServer(facts.serverHealth ?? null),
  ];
  const blobs = await checkBlobs(config, subject.probeBlobs);
  const requested = network ? await runNetworkChecks(subject, facts?.domains ?? []) : [NETWORK_SKIPPED];
  const all = [...own, ...checks, ...(stored ?? []), ...blobs, ...requested];
  return { healthy: all.every((check) => check.status !== 'fail'), checks: all };
}

function checkEventLog(blocker: LogBlocker | undefined): Check[] {
  if (!blocker || (blocker.seconds ?? 0) < LAG_WARN_SECONDS) return [];
  const where = blocker.database === null ? '' : ` in the database ${blocker.database}`;
  return [
    warn(
      'event log',
      `a transaction${where} has been open for ${blocker.seconds} s, so new events do not reach webhooks, streams, and statistics`,
      'End the transaction; pg_stat_activity and pg_prepared_xacts on the database server list it.',
    ),
  ];
}

const NETWORK_SKIPPED = skip('network', 'skipped: DNS, mail servers, blocklists, time servers, and the public address');

async function runNetworkChecks(subject: Subject, domains: SenderDomain[]): Promise<Check[]> {
  const { config, answered = ({ ask }) => ask() } = subject;
  const dns = openDns({ servers: config.dnsServers, dnssec: config.dnssec });
  try {
    const found = await Promise.all([...generalChecks(subject, dns), ...outgoing(subject, dns, domains)].map(answered));
    return found.flat();
  } finally {
    dns.close();
  }
}

type Resolver = ReturnType<typeof openDns>;

function generalChecks({ config, clock }: Subject, dns: Resolver): NetworkCheck[] {
  const { doctorClockUrl: url } = config;
  return [
    { name: 'clock', isThirdParty: true, ask: () => checkClock(url, { dns, clock }) },
    { name: 'public address', ask: () => checkPublicAddress(config, dns, clock.now()) },
  ];
}

/** Checks for outgoing mail: the relay, or the DNS, port 25, and reputation of this host. */
function outgoing(subject: Subject, dns: Resolver, domains: SenderDomain[]): NetworkCheck[] {
  const { config } = subject;
  const { route, smtpHostname, doctorBlocklists } = config;
  const localAddresses = subject.localAddresses ?? config.sourceAddresses;
  const servers = config.dnsServers.length > 0 ? config.dnsServers.join(', ') : "the system's servers";
  const probing: Probing = { dns, domains: config.doctorDomains, port: config.mxPort, servers, localAddresses };
  const always: NetworkCheck[] = [{ name: 'DNS', ask: () => checkDns(probing, { isRelayed: route.kind === 'relay' }) }];
  const sending = { dns, sendingHost: smtpHostname, bounceDomain: config.bounceDomain };
  let found: Promise<Sources> | undefined;
  const sources = (): Promise<Sources> => {
    const local = localAddresses.length > 0 ? Promise.resolve(localAddresses) : outgoingAddresses();
    found ??= local.then((addresses) => sourcesOf(addresses, smtpHostname, dns));
    return found;
  };
  const { bounceDomain } = config;
  if (bounceDomain !== undefined) {
    const seen = async () => (route.kind === 'relay' ? undefined : (await sources()).seen);
    const ask = async () => checkInbound({ ...config, bounceDomain }, { dns, addresses: await seen() });
    always.push({ name: 'return path', ask: () => checkReturnPath(bounceDomain, dns) }, { name: 'bounces', ask });
  }
  const checkOwnDomains = (addresses: readonly string[]): Promise<Check[]> =>
    checkDomains(domains, { ...sending, addresses });
  if (route.kind === 'relay') {
    return [
      ...always,
      { name: 'domains', ask: () => checkOwnDomains([]) },
      { name: 'relay', ask: () => checkRelay({ ...route.relay, name: 'relay' }) },
    ];
  }
  const { fallbackRoute: relay } = config;
  const fallback: NetworkCheck[] = relay
    ? [{ name: 'fallback relay', ask: () => checkRelay({ ...relay, name: 'fallback relay' }) }]
    : [];
  return [
    ...always,
    ...fallback,
    { name: 'domains', ask: async () => checkOwnDomains((await sources()).seen) },
    { name: 'port', isThirdParty: true, ask: () => checkPort(probing) },
    { name: 'HELO name', ask: async () => checkHelo(smtpHostname, await sources(), dns) },
    { name: 'reverse DNS', ask: async () => checkReverse(smtpHostname, await sources(), dns) },
    {
      name: 'blocklist',
      isThirdParty: true,
      ask: async () => checkBlocklists(doctorBlocklists, (await sources()).seen, dns),
    },
  ];
}

/** Returns no check for files in the data directory, which is checked separately. */
async function checkBlobs(config: Config, probe: Subject['probeBlobs']): Promise<Check[]> {
  const name = 'blob storage';
  const { blobs: address } = config;
  if (address.kind === 'disk' && address.folder === undefined) return [];
  const where = address.kind === 'disk' ? `folder ${address.folder}` : describeS3Location(address.location);
  try {
    await probe();
    return [ok(name, `write, read, list, and delete succeeded in ${where}`)];
  } catch (error) {
    const remedy =
      address.kind === 'disk'
        ? 'Mount the folder and make it writable by the user of the service.'
        : 'Check POSTRIDER_BLOB_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and the permissions of the key; see docs/guides/s3.md.';
    return [fail(name, `the blob store (${where}) failed: ${(error as Error).message}`, remedy)];
  }
}

const CACHED_MS = 10 * 60_000;

/** Caches successful checks of other operators' servers for ten minutes. */
export function cacheSuccessfulChecks(clock: Clock): (asking: NetworkCheck) => Promise<Check[]> {
  const known = new Map<string, { checks: Check[]; atMs: number }>();
  return async ({ name, ask, isThirdParty }) => {
    if (!isThirdParty) return ask();
    const before = known.get(name);
    const ageMs = before === undefined ? -1 : clock.now() - before.atMs;
    if (before && ageMs >= 0 && ageMs < CACHED_MS) return before.checks;
    const checks = await ask();
    if (checks.length > 0 && checks.every(({ status }) => status === 'ok'))
      known.set(name, { checks, atMs: clock.now() });
    else known.delete(name);
    return checks;
  };
}

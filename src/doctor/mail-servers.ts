/**
 * Checks outbound connectivity: the DNS, and port 25 of remote MX hosts or the relay. It reads the greeting, because it reveals networks
 * that intercept port 25 and servers that reject this host. Then it sends QUIT; no message is sent.
 */

import { connect, isIP } from 'node:net';
import type { RelayLimitSettings } from '../config.ts';
import { createTokenSource, type OAuthClient } from '../net/access-tokens.ts';
import type { Dns } from '../net/dns.ts';
import { type Check, fail, ok, skip, warn } from './check.ts';

const CONNECT_MS = 5_000;
/** Some servers delay their greeting for unknown clients. */
const GREETING_MS = 10_000;
const MAX_GREETING_BYTES = 2_000;

interface Way {
  host: string;
  port: number;
  /** Source address; chosen by the system if undefined. */
  localAddress?: string | undefined;
}

type Reached = { connected: false; problem: string } | { connected: true; greeting: string };

/** Connects and optionally waits for the greeting, which is empty if none arrives in time. */
export function reach(way: Way, { awaitGreeting }: { awaitGreeting: boolean }): Promise<Reached> {
  return new Promise((resolve) => {
    const { host, port, localAddress } = way;
    const socket = connect({
      host,
      port,
      timeout: CONNECT_MS,
      ...(localAddress === undefined ? {} : { localAddress }),
    });
    let isConnected = false;
    let greeting = '';
    const end = (problem: string): void => {
      socket.destroy();
      resolve(isConnected ? { connected: true, greeting: greeting.trim() } : { connected: false, problem });
    };
    socket.setEncoding('latin1');
    socket.once('connect', () => {
      isConnected = true;
      if (awaitGreeting) socket.setTimeout(GREETING_MS);
      else end('');
    });
    socket.on('data', (part: string) => {
      greeting += part;
      if (!/^\d{3} .*\r?\n/m.test(greeting) && greeting.length < MAX_GREETING_BYTES) return;
      socket.write('QUIT\r\n', () => end(''));
    });
    socket.once('timeout', () => end(`no response within ${CONNECT_MS / 1000} s`));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
    socket.once('close', () => end('the server closed the connection'));
  });
}

export interface Probing {
  dns: Dns;
  /** Domains whose MX hosts are used as samples. */
  domains: readonly string[];
  port: number;
  /** The queried DNS servers, as text. */
  servers: string;
  /** Configured source addresses; if empty, the system chooses. */
  localAddresses: readonly string[];
}

/** Checks that the DNS responds. With a relay, only webhooks and domain checks depend on it. */
export async function checkDns(
  { dns, domains, servers }: Probing,
  { isRelayed }: { isRelayed: boolean },
): Promise<Check[]> {
  const name = 'DNS';
  const [domain = 'gmail.com'] = domains;
  const answer = await dns.resolveMx(domain);
  if (answer.status === 'found') return [ok(name, `${servers} respond`)];
  const cause = answer.status === 'temporary' ? answer.cause : answer.status;
  const message = `${servers} did not resolve the MX records of ${domain}: ${cause}`;
  const remedy = 'Check the network and POSTRIDER_DNS_SERVERS.';
  return [isRelayed ? warn(name, message, remedy) : fail(name, message, remedy)];
}

export interface Relay {
  name: 'relay' | 'fallback relay';
  host: string;
  port: number;
  limits?: RelayLimitSettings;
  oauth?: OAuthClient;
}

function capsText({ perMinute, perDay }: RelayLimitSettings = {}): string {
  const texts = [
    ...(perMinute === undefined ? [] : [`${perMinute} messages in a minute`]),
    ...(perDay === undefined ? [] : [`${perDay} messages in 24 hours`]),
  ];
  return texts.length === 0 ? '' : `; Postrider sends at most ${texts.join(' and ')}`;
}

/** Checks that the relay accepts connections and, with OAuth 2.0, that the provider issues an access token for it. */
export async function checkRelay({ name, host, port, limits, oauth }: Relay): Promise<Check[]> {
  const setting = name === 'relay' ? 'POSTRIDER_ROUTE' : 'POSTRIDER_FALLBACK_ROUTE';
  const reached = await reach({ host, port }, { awaitGreeting: false });
  const connection = reached.connected
    ? ok(name, `${host}:${port} accepts connections${capsText(limits)}`)
    : fail(
        name,
        `${host}:${port} cannot be reached: ${reached.problem}`,
        `Check ${setting}, the relay and the firewall.`,
      );
  return oauth === undefined ? [connection] : [connection, await checkAccessToken(name, oauth, setting)];
}

async function checkAccessToken(name: string, oauth: OAuthClient, setting: string): Promise<Check> {
  try {
    await createTokenSource(oauth).get();
    return ok(name, `${new URL(oauth.tokenUrl).host} issues access tokens`);
  } catch (error) {
    const remedy = `Check the client ID, its secret, tokenUrl, and scope in ${setting}.`;
    return fail(name, (error as Error).message, remedy);
  }
}

/** A check, or `blocked` if the connection failed: only all probes together show whether the local network is the cause. */
type Probe = Check | { blocked: string };

async function probe(name: string, { host, way }: { host: string; way: Way }): Promise<Probe> {
  const reached = await reach(way, { awaitGreeting: true });
  const from = way.localAddress === undefined ? '' : ` from ${way.localAddress}`;
  if (!reached.connected) return { blocked: `${host} cannot be reached${from}: ${reached.problem}` };
  const { greeting } = reached;
  const line = greeting.split(/\r?\n/)[0]!.slice(0, 200);
  if (greeting.startsWith('220')) return ok(name, `${host} sends its greeting${from}`);
  if (greeting === '') {
    const remedy =
      'Check whether a firewall or proxy intercepts port 25: connect with telnet and wait for a line that starts with 220.';
    return warn(
      name,
      `${host} accepts the connection${from} but sends no greeting within ${GREETING_MS / 1000} s`,
      remedy,
    );
  }
  const remedy = 'Read the reply. The sending address may be on a blocklist, or its reverse DNS may be missing.';
  return warn(name, `${host} rejects this host${from}: ${line}`, remedy);
}

/** Checks the best MX host of each domain, from each source address. */
export async function checkPort(probing: Probing): Promise<Check[]> {
  const { dns, domains, port, localAddresses } = probing;
  const name = `port ${port}`;
  const probes = domains.map(async (domain): Promise<Probe[]> => {
    const answer = await dns.resolveMx(domain);
    const host = answer.status === 'found' ? answer.value.hosts[0]?.host : undefined;
    if (host === undefined) return [skip(name, `skipped: no mail server found for ${domain}`)];
    const found = await dns.resolveAddresses(host);
    const addresses = found.status === 'found' ? found.value : [];
    const ways = waysTo(addresses, localAddresses).map((way) => probe(name, { host, way: { ...way, port } }));
    return ways.length > 0 ? Promise.all(ways) : [skip(name, `skipped: ${host} has no address`)];
  });
  const found = (await Promise.all(probes)).flat();
  const isOpen = found.some((one) => 'status' in one && one.status !== 'skip');
  const remedy =
    'Many networks block outgoing port 25. Ask your provider to open it, or set POSTRIDER_ROUTE to a relay.';
  return found.map((one) => {
    if ('status' in one) return one;
    return isOpen
      ? warn(name, one.blocked, 'Other servers can be reached. Check this server again later.')
      : fail(name, one.blocked, remedy);
  });
}

/** Returns one remote address per source address of the same family; IPv4 first if the system chooses. */
function waysTo(remote: readonly string[], local: readonly string[]): Omit<Way, 'port'>[] {
  if (local.length === 0) {
    const host = remote.find((one) => isIP(one) === 4) ?? remote[0];
    return host === undefined ? [] : [{ host }];
  }
  return local.flatMap((localAddress) => {
    const host = remote.find((one) => isIP(one) === isIP(localAddress));
    return host === undefined ? [] : [{ host, localAddress }];
  });
}

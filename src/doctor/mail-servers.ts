/**
 * The way out: the DNS, and port 25 of mail servers elsewhere or the relay. Where a server of somebody else greets, its greeting is
 * read, since networks that answer in its place and servers that refuse this host show themselves there. QUIT follows; no mail is begun.
 */
import { connect, isIP } from 'node:net';
import type { Dns } from '../net/dns.ts';
import { type Check, fail, ok, skip, warn } from './check.ts';

const CONNECT_MS = 5_000;
/** Some servers let strangers wait before they greet. */
const GREETING_MS = 10_000;
const MAX_GREETING_BYTES = 2_000;

interface Way {
  host: string;
  port: number;
  /** Address to leave from; the system's choice otherwise. */
  localAddress?: string | undefined;
}

type Reached = { connected: false; problem: string } | { connected: true; greeting: string };

/** Connects and, where asked, waits for the greeting: empty when none came in time. */
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
    socket.once('timeout', () => end(`no answer within ${CONNECT_MS / 1000} s`));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
    socket.once('close', () => end('closed'));
  });
}

export interface Probing {
  dns: Dns;
  /** Domains whose mail servers stand for the world. */
  domains: readonly string[];
  port: number;
  /** The DNS servers that are asked, in words. */
  servers: string;
  /** Addresses that mail is set to leave from; empty: the system's choice. */
  localAddresses: readonly string[];
}

/** Whether the DNS answers at all. With a relay only webhooks and the check of domains depend on it. */
export async function checkDns(
  { dns, domains, servers }: Probing,
  { isRelayed }: { isRelayed: boolean },
): Promise<Check[]> {
  const name = 'DNS';
  const [domain = 'gmail.com'] = domains;
  const answer = await dns.resolveMx(domain);
  if (answer.status === 'found') return [ok(name, `${servers} answer`)];
  const said = answer.status === 'temporary' ? answer.cause : answer.status;
  const message = `${servers}: ${said} for ${domain}`;
  const remedy = 'Check the network and POSTRIDER_DNS_SERVERS.';
  return [isRelayed ? warn(name, message, remedy) : fail(name, message, remedy)];
}

export interface Relay {
  name: 'relay' | 'fallback relay';
  host: string;
  port: number;
}

export async function checkRelay({ name, host, port }: Relay): Promise<Check[]> {
  const reached = await reach({ host, port }, { awaitGreeting: false });
  if (reached.connected) return [ok(name, `${host}:${port} accepts connections`)];
  const remedy = `Check ${name === 'relay' ? 'POSTRIDER_ROUTE' : 'POSTRIDER_FALLBACK_ROUTE'}, the relay and the firewall.`;
  return [fail(name, `${host}:${port}: ${reached.problem}`, remedy)];
}

/** `blocked` where nothing was reached: whether that is our network or theirs, all probes together say. */
type Probe = Check | { blocked: string };

async function probe(name: string, { host, way }: { host: string; way: Way }): Promise<Probe> {
  const reached = await reach(way, { awaitGreeting: true });
  const from = way.localAddress === undefined ? '' : ` from ${way.localAddress}`;
  if (!reached.connected) return { blocked: `${host}${from}: ${reached.problem}` };
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
  const remedy = 'Read the reply: the sending address may be on a blocklist or lack reverse DNS.';
  return warn(name, `${host} rejects this host${from}: ${line}`, remedy);
}

/** The exchangers of the domains, the best of each, from each of our addresses. */
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
    'Many networks block outgoing port 25: ask your provider to open it, or set POSTRIDER_ROUTE to a relay.';
  return found.map((one) => {
    if ('status' in one) return one;
    return isOpen
      ? warn(name, one.blocked, 'Other servers were reached: check this one again later.')
      : fail(name, one.blocked, remedy);
  });
}

/** One address of theirs for each of ours, of the same family; IPv4 first where the system chooses. */
function waysTo(theirs: readonly string[], ours: readonly string[]): Omit<Way, 'port'>[] {
  if (ours.length === 0) {
    const host = theirs.find((one) => isIP(one) === 4) ?? theirs[0];
    return host === undefined ? [] : [{ host }];
  }
  return ours.flatMap((localAddress) => {
    const host = theirs.find((one) => isIP(one) === isIP(localAddress));
    return host === undefined ? [] : [{ host, localAddress }];
  });
}

/** What the doctor learns from the network: the resolver, the way out for mail, the records of sender domains. */
import { connect } from 'node:net';
import type { Config } from '../config.ts';
import { lookUpRecords, type SenderDomain } from '../domains/domains.ts';
import { type Dns, openDns } from '../net/dns.ts';
import type { Check } from './doctor-local.ts';

/** A domain whose mail servers stand for the world: where port 25 leads there, direct delivery works. */
const PROBE_DOMAIN = 'gmail.com';
const CONNECT_TIMEOUT_MS = 5_000;

async function withDns<T>(config: Config, ask: (dns: Dns) => Promise<T>): Promise<T> {
  const dns = openDns({ servers: config.dnsServers });
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

export async function checkDns(config: Config): Promise<Check[]> {
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

export async function checkRoute(config: Config): Promise<Check[]> {
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

export async function checkDomains(config: Config, domains: SenderDomain[]): Promise<Check[]> {
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

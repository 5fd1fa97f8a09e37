/**
 * Checks inbound mail: whether the bounce domain points to this host, whether its SPF record allows every source address, and whether the
 * inbound port is open.
 */
import type { Config } from '../config.ts';
import { lookUpSpf } from '../domains/domains.ts';
import type { Dns } from '../net/dns.ts';
import { type Check, fail, ok, skip, warn } from './check.ts';
import { warnOfUncovered } from './domains.ts';
import { reach } from './mail-servers.ts';

const NAME = 'bounces';

type Settings = Pick<Config, 'inboundPort' | 'mxPort' | 'smtpHostname'> & { bounceDomain: string };

interface NetworkCheck {
  dns: Dns;
  /** Public source addresses, empty if unknown; undefined if a relay sends the mail. */
  addresses: readonly string[] | undefined;
}

/** Returns one check per problem, or one if there are none. */
export async function checkInbound(config: Settings, { dns, addresses }: NetworkCheck): Promise<Check[]> {
  const { bounceDomain, smtpHostname: host } = config;
  const mx = await dns.resolveMx(bounceDomain);
  if (mx.status === 'temporary') return [skip(NAME, `the DNS lookup of ${bounceDomain} failed`)];
  const hosts = mx.status === 'found' ? mx.value.hosts.map((one) => one.host) : [];
  if (hosts.length === 0) {
    const remedy = `Publish ${bounceDomain} MX 10 ${host}.`;
    return [fail(NAME, `${bounceDomain} has no MX record, so Postrider cannot receive bounces`, remedy)];
  }
  const spf = addresses && (await spfOf(config, dns, addresses));
  const wrong = [mxMismatch(config, hosts), spf, await portOf(config, hosts)];
  const found = wrong.filter((check) => check !== undefined);
  const where = hosts.includes(host) ? `; ${host} accepts mail` : ', not to this host, which accepts no mail';
  const checks = found.length > 0 ? found : [ok(NAME, `${bounceDomain} points to ${hosts.join(', ')}${where}`)];
  const spfSkipped = skip(
    NAME,
    `SPF of ${bounceDomain} skipped: all mail goes to the relay, which the record must include`,
  );
  return addresses ? checks : [...checks, spfSkipped];
}

function mxMismatch({ bounceDomain, smtpHostname: host, inboundPort }: Settings, hosts: string[]): Check | undefined {
  if (inboundPort !== undefined && !hosts.includes(host)) {
    const remedy = `Publish ${bounceDomain} MX 10 ${host}, or unset POSTRIDER_INBOUND_PORT here if other hosts accept the mail.`;
    return warn(NAME, `the MX records of ${bounceDomain} point to ${hosts.join(', ')}, not to ${host}`, remedy);
  }
  if (inboundPort !== undefined || !hosts.includes(host)) return undefined;
  const remedy = 'Set POSTRIDER_INBOUND_PORT, for example to 25 if no proxy forwards the port.';
  return fail(
    NAME,
    `the MX records of ${bounceDomain} point to ${host}, but POSTRIDER_INBOUND_PORT is not set`,
    remedy,
  );
}

async function spfOf(
  { bounceDomain, smtpHostname: sendingHost }: Settings,
  dns: Dns,
  addresses: readonly string[],
): Promise<Check | undefined> {
  const known = addresses.length > 0 ? { addresses } : {};
  const { status, value } = await lookUpSpf(bounceDomain, { dns, sendingHost, ...known });
  if (status !== 'missing' && status !== 'different')
    return warnOfUncovered(NAME, bounceDomain, { dns, sendingHost, addresses });
  const remedy = `Publish at ${bounceDomain}, as its only SPF record: ${value}`;
  return warn(NAME, `the SPF record of ${bounceDomain} does not include ${sendingHost}`, remedy);
}

async function portOf(
  { smtpHostname: host, mxPort, inboundPort }: Settings,
  hosts: string[],
): Promise<Check | undefined> {
  if (inboundPort === undefined || !hosts.includes(host)) return undefined;
  const reached = await reach({ host, port: mxPort }, { awaitGreeting: true });
  if (reached.connected && reached.greeting.includes(host)) return undefined;
  const finding = reached.connected ? `its greeting is "${reached.greeting.slice(0, 100)}"` : reached.problem;
  const remedy = `Forward port ${mxPort} of ${host} to POSTRIDER_INBOUND_PORT (${inboundPort}). If this network cannot reach its own public address, check from another network.`;
  return warn(NAME, `port ${mxPort} of ${host} is not the inbound port of this service: ${finding}`, remedy);
}

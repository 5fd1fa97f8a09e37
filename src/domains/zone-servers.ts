/**
 * The servers of the zone in which a name lies, found by a resolver: the closest NS records at the name or above it, and the
 * addresses of each. At most eight are asked, more of one zone are rare. One without a public address is not asked either: who
 * owns a zone chooses its servers, and is not to choose whom this host asks in its own network. A host without any address is
 * no server.
 */
import { isIPv4 } from 'node:net';
import { addressRefusal } from '../net/address-guard.ts';
import type { Dns } from '../net/dns.ts';
import type { FindServers, ZoneServer } from './published.ts';

const MAX_SERVERS = 8;

/** Remembers nothing beyond what the resolver does. */
export function zoneServers(dns: Dns): FindServers {
  return async (name) => {
    const labels = name.split('.');
    for (let above = 0; above <= labels.length - 2; above += 1) {
      const answer = await dns.resolveNs(labels.slice(above).join('.'));
      if (answer.status === 'found') return serversAt(dns, answer.value);
      // Who is not answered here cannot know whether a zone begins at this name, nor what its servers are called.
      if (answer.status === 'temporary') return [{ host: `the servers of ${name}`, dns: undefined }];
    }
    return [];
  };
}

async function serversAt(dns: Dns, hosts: readonly string[]): Promise<ZoneServer[]> {
  const asked = await Promise.all(hosts.slice(0, MAX_SERVERS).map((host) => serverAt(dns, host)));
  const others = hosts.slice(MAX_SERVERS).map((host) => ({ host, dns: undefined }));
  return [...asked.filter((one) => one !== undefined), ...others];
}

async function serverAt(dns: Dns, host: string): Promise<ZoneServer | undefined> {
  const answer = await dns.resolveAddresses(host);
  if (answer.status === 'temporary') return { host, dns: undefined };
  if (answer.status !== 'found') return undefined;
  // Not every host that sends mail has a way to IPv6.
  const usable = answer.value.filter((one) => addressRefusal(one, []) === undefined);
  const address = usable.find(isIPv4) ?? usable[0];
  return { host, dns: address === undefined ? undefined : dns.atServers([address]) };
}

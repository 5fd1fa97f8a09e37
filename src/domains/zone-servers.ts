/**
 * The servers of the zone in which a name lies, found by a resolver: the closest NS records at the name or above it, and the
 * addresses of each. At most eight servers are named, more of one zone are rare. One without a public address is left out: who
 * owns a zone chooses its servers, and is not to choose whom this host asks in its own network.
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
      if (answer.status === 'found') return reachable(dns, answer.value.slice(0, MAX_SERVERS));
      // Who is not answered here cannot know whether a zone begins at this name.
      if (answer.status === 'temporary') return [];
    }
    return [];
  };
}

async function reachable(dns: Dns, hosts: readonly string[]): Promise<ZoneServer[]> {
  const servers = await Promise.all(
    hosts.map(async (host) => {
      const answer = await dns.resolveAddresses(host);
      if (answer.status !== 'found') return undefined;
      // Not every host that sends mail has a way to IPv6.
      const usable = answer.value.filter((one) => addressRefusal(one, []) === undefined);
      const address = usable.find(isIPv4) ?? usable[0];
      return address === undefined ? undefined : { host, dns: dns.atServers([address]) };
    }),
  );
  return servers.filter((one) => one !== undefined);
}

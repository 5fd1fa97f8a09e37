/**
 * Finds the authoritative servers of the zone that contains a name, through a resolver: the closest NS records at or above the name, and
 * the addresses of each server. Up to eight are queried; zones rarely have more. Servers without a public address are not queried, because
 * the owner of a zone must not be able to direct queries into the internal network. A host without any address is ignored.
 */
import { isIPv4 } from 'node:net';
import { addressRefusal } from '../net/address-guard.ts';
import type { Dns } from '../net/dns.ts';
import type { FindServers, ZoneServer } from './published.ts';

const MAX_SERVERS = 8;

/** Caches nothing beyond the resolver's own cache. */
export function zoneServers(dns: Dns): FindServers {
  return async (name) => {
    const labels = name.split('.');
    for (let above = 0; above <= labels.length - 2; above += 1) {
      const answer = await dns.resolveNs(labels.slice(above).join('.'));
      if (answer.status === 'found') return serversAt(dns, answer.value);
      // After a failed lookup it is unknown whether a zone starts at this name.
      if (answer.status === 'temporary') return [{ host: `the servers of ${name}`, dns: undefined }];
    }
    return [];
  };
}

async function serversAt(dns: Dns, hosts: readonly string[]): Promise<ZoneServer[]> {
  const requested = await Promise.all(hosts.slice(0, MAX_SERVERS).map((host) => serverAt(dns, host)));
  const others = hosts.slice(MAX_SERVERS).map((host) => ({ host, dns: undefined }));
  return [...requested.filter((one) => one !== undefined), ...others];
}

async function serverAt(dns: Dns, host: string): Promise<ZoneServer | undefined> {
  const answer = await dns.resolveAddresses(host);
  if (answer.status === 'temporary') return { host, dns: undefined };
  if (answer.status !== 'found') return undefined;
  // Many hosts that send mail have no IPv6 connectivity.
  const usable = answer.value.filter((one) => addressRefusal(one, []) === undefined);
  const address = usable.find(isIPv4) ?? usable[0];
  return { host, dns: address === undefined ? undefined : dns.atServers([address]) };
}

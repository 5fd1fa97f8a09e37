/** A resolver without network, for the lookups of sending domains. */
import type { Dns, DnsAnswer } from '../../src/net/dns.ts';

/** Returns a resolver that has these TXT records, and no records of any other type. */
export function scriptedDns(records: Map<string, DnsAnswer<string[]>>): Dns {
  const none = async () => ({ status: 'no-data', secure: false }) as const;
  const dns: Dns = {
    resolveMx: none,
    resolveAddresses: none,
    resolveA: none,
    resolveAaaa: none,
    lookupHost: none,
    resolveCname: none,
    resolveNs: none,
    resolvePtr: none,
    resolveTlsa: none,
    atServers: () => dns,
    resolveTxt: async (name) => records.get(name) ?? { status: 'no-such-domain', secure: false },
    close: () => undefined,
  };
  return dns;
}

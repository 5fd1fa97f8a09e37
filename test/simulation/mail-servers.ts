/** The mail servers of the recipients' domains, their policy hosts, and their DNS records. */
import type { Choices } from './choices.ts';
import { publish } from './dane.ts';
import type { DnsWorld } from './dns.ts';
import type { Flood } from './flood.ts';
import type { Network } from './network.ts';
import { type Copy, drawManners, type Manners, PERFECT, type Peer, startPeer } from './peers.ts';
import { DOMAINS, NOWHERE, type Policies } from './policies.ts';
import { type PolicyHost, startPolicyHost } from './policy-hosts.ts';
import type { Random } from './random.ts';
import type { Process } from './timeline.ts';

const TTL_SECONDS = 300;

export function startMailServers(world: {
  network: Network;
  random: Random;
  dns: DnsWorld;
  flood: Flood | undefined;
  /** No server has a fault. */
  isPerfect: boolean;
  /** The share of servers without a fault. */
  goodServers: number;
  policies: Policies;
  choices: Choices;
  onBegun(remoteProcess: Process | undefined): void;
  onDot(): void;
  onTaken(copy: Copy): void;
  count(what: string): void;
}): Peer[] {
  const { network, random, dns, flood, isPerfect, goodServers, choices, policies, ...listening } = world;
  const { count } = listening;
  const peers: Peer[] = [];
  const open = (name: string, address: string, manners: Manners): void => {
    const key = 2 * peers.length + 1;
    dns.set(name, [{ type: 'A', name, ttl: TTL_SECONDS, data: address }]);
    const dane = policies.dane.get(name);
    if (dane) {
      count(`DANE: ${dane.kind}`);
      publish(dns, name, { dane, key });
    }
    peers.push(startPeer(network, { ...listening, name, address, manners, key, random }));
  };
  for (const domain of policies.signed) dns.sign(domain);
  const nobody = { preference: 0, exchange: '.' };
  dns.set(NOWHERE.nullMx, [{ type: 'MX', name: NOWHERE.nullMx, ttl: TTL_SECONDS, data: nobody }]);
  for (const [at, [domain, manners]] of Object.entries(flood?.manners ?? {}).entries()) {
    const exchange = `mx.${domain}`;
    dns.set(domain, [{ type: 'MX', name: domain, ttl: TTL_SECONDS, data: { preference: 10, exchange } }]);
    open(exchange, `5.11.${at}.1`, manners);
  }
  for (const [at, domain] of DOMAINS.entries()) {
    const hosts = random.chance(0.3) ? 2 : 1;
    const names = Array.from({ length: hosts }, (_, host) => `mx${host}.${domain}`);
    dns.set(
      domain,
      names.map((exchange, index) => ({
        type: 'MX' as const,
        name: domain,
        ttl: TTL_SECONDS,
        data: { preference: 10 * index, exchange },
      })),
    );
    for (const [host, name] of names.entries()) {
      const drawn = drawManners(random, { isOnly: hosts === 1 });
      const isGood = isPerfect || random.stream(`${name} is good`).chance(goodServers);
      const manners = choices.faults(name, isGood ? PERFECT : drawn, PERFECT);
      if (policies.enforced.has(domain)) count('MTA-STS policy in force');
      open(name, `5.10.${at}.${host + 1}`, {
        ...manners,
        isCertified: manners.isCertified && policies.isCertified(name),
      });
    }
  }
  return peers;
}

export function startPolicyHosts(world: {
  network: Network;
  random: Random;
  dns: DnsWorld;
  policies: Policies;
  choices: Choices;
  count(what: string): void;
}): PolicyHost[] {
  return [...world.policies.publishing].map(([domain, publishing]) =>
    startPolicyHost(world, { domain, publishing, address: `5.30.${DOMAINS.indexOf(domain)}.1` }),
  );
}

/**
 * Maps domains to destinations. The destination of a domain is the sorted list of its MX hosts of the best preference (RFC 5321 §5.1), each
 * replaced by its provider's name if it belongs to one (providers.ts). So 80 domains with one MX host share its limits, and if one host of
 * a provider asks for time, that applies to all of its hosts. A host of lower preference is a separate destination: its replies pause only
 * the mail of the domains that reach it this way.
 *
 * Until the first DNS answer a domain is pending, and nothing is dialed for it. If it has no MX records, or the DNS does not answer, the
 * domain itself is the destination. An answer is refreshed after a minute, from a resolver that caches it for its TTL, and by each attempt
 * that looks up its hosts, so a server is always dialed under its current destination. In the meantime, and while the DNS fails, the last
 * answer applies. The number of entries is limited: the least recently used domains are forgotten.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Dns, MxHost } from '../../net/dns.ts';
import type { Providers } from '../destinations/providers.ts';

const REFRESH_MS = 60_000;
/** Time until the next lookup after a failed one. */
const RETRY_MS = 5_000;
const MAX_DOMAINS = 20_000;
/** As many hosts as one attempt dials. */
const MAX_OTHERS = 5;
/** A longer key is cut and gets a digest of the full key. */
const MAX_KEY = 400;

export interface MxSets {
  /** Returns the destination of a domain: the domain itself while its MX hosts are unknown. */
  destinationOf(domain: string): string;
  /** Looks up the MX hosts if that is due. Not called for mail that is only being parked. */
  lookUp(domain: string): void;
  /** Looks up the MX hosts for an attempt; the result also updates the destination of the domain. */
  resolveMx: Dns['resolveMx'];
  /**
   * Returns the destination of a host that receives mail for the domain: the domain's destination, or for a host of lower preference its
   * own.
   */
  destinationAt(domain: string, host: string): string;
  /** Returns the destinations of the hosts of lower preference, better ones first. */
  othersOf(domain: string): readonly string[];
  /** Whether the domain's first lookup is running. */
  isPending(domain: string): boolean;
  /** Whether a host is among the best MX hosts of the domain. */
  serves(domain: string, host: string): boolean;
  /** Whether two domains have the same MX hosts, including those of lower preference. */
  areAlike(one: string, other: string): boolean;
  /** Returns the domains known to have this destination. */
  domainsOf(key: string): string[];
}

export interface MxSetDeps {
  dns: Pick<Dns, 'resolveMx'>;
  clock: Clock;
  providers: Providers;
  /** The domain is no longer pending, or had the destination `before` until now. */
  onChanged(domain: string, before: string): void;
}

interface Entry {
  key: string;
  /** Hosts of the best preference. */
  best: ReadonlySet<string>;
  /** The same hosts, as `key` names them. */
  folded: ReadonlySet<string>;
  /** The destinations of the hosts of lower preference. */
  others: readonly string[];
  /** All hosts with their preferences; empty while unknown. */
  all: string;
  isPending: boolean;
  /** Running lookups. */
  asking: number;
  /** Unix ms of the last lookup. */
  askedMs: number;
  /** How long the answer is used from `askedMs` on without another lookup. */
  freshMs: number;
}

/** Returns the MX hosts of the best preference, without duplicates. */
function bestOf(hosts: readonly MxHost[]): string[] {
  const best = Math.min(...hosts.map(({ preference }) => preference));
  return [...new Set(hosts.filter(({ preference }) => preference === best).map(({ host }) => host))].sort();
}

/** Returns a host as keys name it. A host without a dot gets one, so that it cannot equal a provider or a shared destination. */
function fold(host: string, providers: Providers): string {
  return providers.byHost(host)?.name ?? (host.includes('.') ? host : `${host}.`);
}

/** Returns the key of a set of MX hosts. */
export function keyOfMxHosts(hosts: readonly string[], providers: Providers): string {
  const folded = [...new Set(hosts.map((host) => fold(host, providers)))].sort();
  const key = folded.join(',');
  if (key.length <= MAX_KEY) return key;
  return `${folded[0]},${createHash('sha256').update(key).digest('hex').slice(0, 16)}`;
}

export function openMxSets({ dns, clock, providers, onChanged }: MxSetDeps): MxSets {
  const entries = new Map<string, Entry>();
  const domains = new Map<string, Set<string>>();

  const keep = (domain: string, { key }: Entry): void => {
    const fellows = domains.get(key);
    if (fellows) fellows.add(domain);
    else domains.set(key, new Set([domain]));
  };

  const drop = (domain: string, key: string): void => {
    const fellows = domains.get(key);
    fellows?.delete(domain);
    if (fellows?.size === 0) domains.delete(key);
  };

  const evict = (): void => {
    for (const [domain, entry] of entries) {
      if (entries.size < MAX_DOMAINS) return;
      if (entry.asking > 0) continue;
      entries.delete(domain);
      drop(domain, entry.key);
    }
  };

  const entryOf = (domain: string): Entry => {
    let entry = entries.get(domain);
    if (!entry) {
      evict();
      entry = {
        key: domain,
        best: new Set(),
        folded: new Set(),
        others: [],
        all: '',
        isPending: true,
        asking: 0,
        askedMs: clock.now(),
        freshMs: 0,
      };
      keep(domain, entry);
    } else entries.delete(domain);
    // Move the entry to the end, as the most recently used.
    entries.set(domain, entry);
    return entry;
  };

  const keyAt = ({ key, folded }: Entry, host: string): string =>
    folded.has(fold(host, providers)) ? key : keyOfMxHosts([host], providers);

  const resolveMx: Dns['resolveMx'] = async (domain) => {
    const entry = entryOf(domain);
    entry.asking += 1;
    const answer = await dns.resolveMx(domain);
    entry.asking -= 1;
    const before = entry.key;
    const wasPending = entry.isPending;
    Object.assign(entry, { isPending: false, askedMs: clock.now(), freshMs: REFRESH_MS });
    if (answer.status === 'temporary') entry.freshMs = RETRY_MS;
    else {
      const hosts = answer.status === 'found' ? answer.value.hosts : [];
      const best = hosts.length > 0 ? bestOf(hosts) : [domain];
      entry.best = new Set(best);
      entry.folded = new Set(best.map((host) => fold(host, providers)));
      entry.all = hosts.map(({ host, preference }) => `${preference} ${host}`).sort().join(); // biome-ignore format: one step
      entry.key = hosts.length > 0 ? keyOfMxHosts(best, providers) : domain;
      const worse = [...hosts].sort((a, b) => a.preference - b.preference).map(({ host }) => keyAt(entry, host));
      entry.others = [...new Set(worse)].filter((key) => key !== entry.key).slice(0, MAX_OTHERS);
    }
    if (entry.key !== before) {
      drop(domain, before);
      keep(domain, entry);
    }
    if (wasPending || entry.key !== before) onChanged(domain, before);
    return answer;
  };

  return {
    destinationOf: (domain) => entries.get(domain)?.key ?? domain,
    lookUp: (domain) => {
      const entry = entryOf(domain);
      const now = clock.now();
      const isFresh = now >= entry.askedMs && now < entry.askedMs + entry.freshMs;
      if (!isFresh && entry.asking === 0) void resolveMx(domain);
    },
    resolveMx,
    destinationAt: (domain, host) => keyAt(entryOf(domain), host),
    othersOf: (domain) => entries.get(domain)?.others ?? [],
    isPending: (domain) => entries.get(domain)?.isPending === true,
    serves: (domain, host) => entries.get(domain)?.best.has(host) === true,
    areAlike: (one, other) => {
      if (one === other) return true;
      const all = entries.get(one)?.all ?? '';
      return all !== '' && all === entries.get(other)?.all;
    },
    domainsOf: (key) => [...(domains.get(key) ?? [])],
  };
}

/** For a relay: no name is looked up, since all messages have one destination. */
export function singleRoute({ resolveMx }: Pick<Dns, 'resolveMx'>): MxSets {
  return {
    resolveMx,
    destinationOf: (domain) => domain,
    destinationAt: (domain) => domain,
    lookUp: () => undefined,
    othersOf: () => [],
    isPending: () => false,
    serves: () => false,
    areAlike: (one, other) => one === other,
    domainsOf: (key) => [key],
  };
}

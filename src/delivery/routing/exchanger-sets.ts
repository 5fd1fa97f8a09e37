/**
 * Which destination mail for a domain counts for: the exchangers of the best preference behind it (RFC 5321 §5.1), sorted, each replaced
 * by its provider's name where it is one's (providers.ts). So 80 domains with one exchanger share its limits, and a wish for time
 * of one host of a provider counts for all of its hosts. A worse exchanger is a destination of its own: a domain that names it beside
 * somebody else's better ones has its own mail paused by what it says, and nobody else's.
 *
 * Until the first answer of the DNS a domain is pending, and nothing is dialled for it. Where it has no MX records, or the DNS does not
 * answer, the domain itself is the destination. An answer is asked for again after a minute, of a DNS that keeps it for its TTL, and by
 * each attempt that looks up where to dial: so no server is dialled under another name than its own. Meanwhile, and while the DNS
 * fails, the last one holds. What is known is bounded: the domains least recently asked for are forgotten.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Dns, MxHost } from '../../net/dns.ts';
import type { Providers } from '../destinations/providers.ts';

const REFRESH_MS = 60_000;
/** After an answer that failed. */
const RETRY_MS = 5_000;
const MAX_DOMAINS = 20_000;
/** As many as one attempt dials. */
const MAX_OTHERS = 5;
/** A longer key is cut, with a digest of the whole. */
const MAX_KEY = 400;

export interface ExchangerSets {
  /** The destination of a domain: the domain itself while its exchangers are not known. */
  destinationOf(domain: string): string;
  /** Looks its exchangers up where that is due. Mail that is only passed by, to be parked, asks the DNS nothing. */
  lookUp(domain: string): void;
  /** Looks the exchangers up for an attempt: the domain has their destination from then on. */
  resolveMx: Dns['resolveMx'];
  /** What a host counts for when it takes mail for the domain: the domain's destination, or as a worse exchanger one of its own. */
  destinationAt(domain: string, host: string): string;
  /** The destinations of its worse exchangers, the better ones first. */
  othersOf(domain: string): readonly string[];
  /** Whether the domain is being looked up for the first time. */
  isPending(domain: string): boolean;
  /** Whether a host is among the best exchangers of the domain. */
  serves(domain: string, host: string): boolean;
  /** Whether two domains have the same exchangers, the worse ones included. */
  areAlike(one: string, other: string): boolean;
  /** The domains known to have this destination. */
  domainsOf(key: string): string[];
}

export interface ExchangerSetDeps {
  dns: Pick<Dns, 'resolveMx'>;
  clock: Clock;
  providers: Providers;
  /** The domain is no longer pending, or has another destination than `before`. */
  onChanged(domain: string, before: string): void;
}

interface Entry {
  key: string;
  /** Of the best preference. */
  best: ReadonlySet<string>;
  /** The same as `key` names them. */
  folded: ReadonlySet<string>;
  /** The destinations of the worse ones. */
  others: readonly string[];
  /** All of them with their preferences; empty while they are not known. */
  all: string;
  isPending: boolean;
  /** Questions under way. */
  asking: number;
  /** Unix ms. */
  askedMs: number;
  /** From `askedMs` on it holds so long without being asked for again. */
  freshMs: number;
}

/** The exchangers of the best preference, each once. */
function bestOf(hosts: readonly MxHost[]): string[] {
  const best = Math.min(...hosts.map(({ preference }) => preference));
  return [...new Set(hosts.filter(({ preference }) => preference === best).map(({ host }) => host))].sort();
}

/** A host as keys name it. One without a dot gets one: it is not to be taken for a provider or for a destination that all share. */
function fold(host: string, providers: Providers): string {
  return providers.byHost(host)?.name ?? (host.includes('.') ? host : `${host}.`);
}

/** The key of a set of exchangers. */
export function keyOfExchangers(hosts: readonly string[], providers: Providers): string {
  const folded = [...new Set(hosts.map((host) => fold(host, providers)))].sort();
  const key = folded.join(',');
  if (key.length <= MAX_KEY) return key;
  return `${folded[0]},${createHash('sha256').update(key).digest('hex').slice(0, 16)}`;
}

export function openExchangerSets({ dns, clock, providers, onChanged }: ExchangerSetDeps): ExchangerSets {
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
        ...{ key: domain, best: new Set(), folded: new Set(), others: [], all: '', isPending: true, asking: 0 },
        ...{ askedMs: clock.now(), freshMs: 0 },
      };
      keep(domain, entry);
    } else entries.delete(domain);
    // The youngest stands last.
    entries.set(domain, entry);
    return entry;
  };

  const keyAt = ({ key, folded }: Entry, host: string): string =>
    folded.has(fold(host, providers)) ? key : keyOfExchangers([host], providers);

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
      entry.key = hosts.length > 0 ? keyOfExchangers(best, providers) : domain;
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

/** Where all mail takes one way, no name is looked up: behind a relay every message has the one destination. */
export function oneWay({ resolveMx }: Pick<Dns, 'resolveMx'>): ExchangerSets {
  return {
    ...{ resolveMx, destinationOf: (domain) => domain, destinationAt: (domain) => domain, lookUp: () => undefined },
    ...{ othersOf: () => [], isPending: () => false, serves: () => false },
    ...{ areAlike: (one, other) => one === other, domainsOf: (key) => [key] },
  };
}

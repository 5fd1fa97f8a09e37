/**
 * Questions to the DNS, with answers that say what a mailer must know: found, no such domain, no data, or try again later.
 * Nothing throws because of an answer. Names are asked in A-labels; a name that cannot exist is `no-such-domain` without
 * a question. A CNAME loop is what the resolver makes of it: most answer SERVFAIL (temporary), c-ares that is handed
 * the bare loop finds no record in it (no-data, which ends in a permanent failure).
 *
 * TTLs are obeyed between 5 s and an hour for addresses. Node does not tell the TTL of other types: those are kept for five
 * minutes, negative answers for thirty seconds, temporary failures for two.
 */
import { lookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';

export type DnsAnswer<T> =
  | { status: 'found'; value: T }
  /** NXDOMAIN, or a name that cannot be one. */
  | { status: 'no-such-domain' }
  /** The name exists without records of this type. */
  | { status: 'no-data' }
  /** SERVFAIL, timeout, refused, malformed: ask again later. `cause` is the resolver's code, e.g. ESERVFAIL. */
  | { status: 'temporary'; cause: string };

export interface MxHost {
  /** Lower case, A-labels, without the last dot. */
  host: string;
  preference: number;
}

export interface MxAnswer {
  /** RFC 7505: the domain says that it takes no mail. `hosts` is empty then. */
  nullMx: boolean;
  /** Best first, in random order within a preference, at most 20. */
  hosts: MxHost[];
}

export interface DnsOptions {
  /** `address` or `address:port` (`[v6]:port`); empty means the system's. */
  servers: string[];
  /** For the first try; later tries wait longer. Default 3,000. */
  timeoutMs?: number;
  /** Per server; default 2. */
  tries?: number;
  maxCacheEntries?: number;
}

export interface Dns {
  /** RFC 5321 §5.1. The caller falls back to resolveAddresses(domain) on `no-data`. */
  resolveMx(domain: string): Promise<DnsAnswer<MxAnswer>>;
  /** A and AAAA together, IPv4 first. An IP literal is `no-such-domain`. */
  resolveAddresses(host: string): Promise<DnsAnswer<string[]>>;
  /**
   * Like resolveAddresses, for hosts that an operator or a user named: also IP literals, `localhost`, names without a
   * dot, and, where the system's servers are used, whatever else only the system knows (hosts file, search domains).
   */
  lookupHost(host: string): Promise<DnsAnswer<string[]>>;
  /** Each record with its strings joined. */
  resolveTxt(name: string): Promise<DnsAnswer<string[]>>;
  resolveCname(name: string): Promise<DnsAnswer<string>>;
  /** Questions under way end as temporary failures. */
  close(): void;
}

const MAX_MX = 20;
const MAX_ADDRESSES = 16;
const MIN_TTL_MS = 5_000;
const MAX_TTL_MS = 3_600_000;
const UNKNOWN_TTL_MS = 300_000;
const NEGATIVE_TTL_MS = 30_000;
const TEMPORARY_TTL_MS = 2_000;

/** The name as it is asked for, or undefined when it cannot be a host name. Underscores are allowed (RFC 2181 §11). */
export function toQueryName(name: string): string | undefined {
  const bare = name.endsWith('.') ? name.slice(0, -1) : name;
  const ascii = domainToASCII(bare);
  if (ascii === '' || ascii.length > 253 || isIP(ascii) !== 0 || ascii.startsWith('[')) return undefined;
  return ascii.split('.').every((label) => label !== '' && label.length <= 63) ? ascii : undefined;
}

/** RFC 6761 §6.3: localhost is never asked for; lookupHost answers both loopback addresses, whether the host has them or not. */
export function isLocalhost(name: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(name);
}

function failureOf(error: unknown): DnsAnswer<never> {
  const cause = (error as NodeJS.ErrnoException).code ?? 'EUNKNOWN';
  if (cause === 'ENOTFOUND') return { status: 'no-such-domain' };
  if (cause === 'ENODATA') return { status: 'no-data' };
  if (cause === 'EBADNAME') return { status: 'no-such-domain' };
  return { status: 'temporary', cause };
}

function negative<T>(answer: DnsAnswer<T>): Cached<DnsAnswer<T>> {
  return { value: answer, ttlMs: answer.status === 'temporary' ? TEMPORARY_TTL_MS : NEGATIVE_TTL_MS };
}

function shuffle<T>(list: T[]): T[] {
  for (let i = list.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1));
    [list[i], list[j]] = [list[j]!, list[i]!];
  }
  return list;
}

/** Sorts, bounds and cleans what the resolver gave. */
function toMxAnswer(records: { exchange: string; priority: number }[]): DnsAnswer<MxAnswer> {
  if (records.length === 0) return { status: 'no-data' };
  if (records.length === 1 && (records[0]!.exchange === '' || records[0]!.exchange === '.')) {
    return { status: 'found', value: { nullMx: true, hosts: [] } };
  }
  const hosts = shuffle([...records])
    .sort((a, b) => a.priority - b.priority)
    .flatMap(({ exchange, priority }) => {
      const host = toQueryName(exchange);
      return host === undefined ? [] : [{ host: host.toLowerCase(), preference: priority }];
    })
    .slice(0, MAX_MX);
  // None of them may be a host name, such as an address: the domain is there all the same.
  return { status: 'found', value: { nullMx: false, hosts } };
}

interface WithTtl {
  address: string;
  ttl: number;
}

/** One answer of the two questions for A and AAAA: what is found counts more than what failed, that more than nothing. */
function joinAddresses(v4: DnsAnswer<WithTtl[]>, v6: DnsAnswer<WithTtl[]>): Cached<DnsAnswer<string[]>> {
  const both = [...(v4.status === 'found' ? v4.value : []), ...(v6.status === 'found' ? v6.value : [])];
  const temporary = v4.status === 'temporary' ? v4 : v6.status === 'temporary' ? v6 : undefined;
  if (both.length > 0) {
    const ttlMs = Math.min(...both.map((record) => record.ttl)) * 1000;
    const value = both.slice(0, MAX_ADDRESSES).map((record) => record.address);
    const bounded = Math.min(Math.max(ttlMs, MIN_TTL_MS), MAX_TTL_MS);
    return { value: { status: 'found', value }, ttlMs: temporary ? MIN_TTL_MS : bounded };
  }
  if (temporary) return negative(temporary);
  const status = v4.status === 'no-such-domain' || v6.status === 'no-such-domain' ? 'no-such-domain' : 'no-data';
  return negative({ status });
}

async function answer<T>(question: Promise<T>): Promise<DnsAnswer<T>> {
  try {
    return { status: 'found', value: await question };
  } catch (error) {
    return failureOf(error);
  }
}

/** What the system's own resolution knows (hosts file, search domains); one of libuv's few threads waits meanwhile. */
function systemLookup(host: string): Promise<DnsAnswer<string[]>> {
  return new Promise((resolve) => {
    lookup(host, { all: true, order: 'ipv4first' }, (error, found) => {
      if (!error) resolve({ status: 'found', value: found.map((entry) => entry.address) });
      else if (error.code === 'EAI_AGAIN') resolve({ status: 'temporary', cause: error.code });
      else resolve({ status: 'no-such-domain' });
    });
  });
}

/** A resolver with its cache. Throws when a server is neither an address nor address:port. */
export function openDns(options: DnsOptions): Dns {
  const timeout = options.timeoutMs ?? 3_000;
  const resolver = new Resolver({ timeout, tries: options.tries ?? 2, maxTimeout: timeout * 2 });
  const ownServers = options.servers.length > 0;
  if (ownServers) resolver.setServers(options.servers);
  const cache = dnsCache({ maxEntries: options.maxCacheEntries ?? 20_000 });

  const cached = <T>(type: string, name: string, ask: (name: string) => Promise<Cached<DnsAnswer<T>>>) => {
    const asked = toQueryName(name);
    if (asked === undefined) return Promise.resolve<DnsAnswer<T>>({ status: 'no-such-domain' });
    return cache.get(`${type} ${asked}`, () => ask(asked));
  };
  const plain = <T, U>(question: Promise<T>, convert: (value: T) => DnsAnswer<U>): Promise<Cached<DnsAnswer<U>>> =>
    answer(question).then((got) => {
      const converted = got.status === 'found' ? convert(got.value) : got;
      return converted.status === 'found' ? { value: converted, ttlMs: UNKNOWN_TTL_MS } : negative(converted);
    });

  const resolveAddresses: Dns['resolveAddresses'] = (host) =>
    cached('ADDRESS', host, async (name) => {
      const [v4, v6] = await Promise.all([
        answer(resolver.resolve4(name, { ttl: true })),
        answer(resolver.resolve6(name, { ttl: true })),
      ]);
      return joinAddresses(v4, v6);
    });

  const lookupHost: Dns['lookupHost'] = async (host) => {
    const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
    if (isIP(bare) !== 0) return { status: 'found', value: [bare] };
    if (isLocalhost(bare)) return { status: 'found', value: ['127.0.0.1', '::1'] };
    // A name without a dot is left to the system: only it knows the search domains.
    if (bare.includes('.')) {
      const named = await resolveAddresses(bare);
      if (ownServers || named.status === 'found') return named;
    }
    return cached('SYSTEM', bare, async (name) => {
      const value = await systemLookup(name);
      return value.status === 'found' ? { value, ttlMs: MIN_TTL_MS } : negative(value);
    });
  };

  return {
    resolveMx: (domain) => cached('MX', domain, (name) => plain(resolver.resolveMx(name), toMxAnswer)),
    resolveAddresses,
    lookupHost,
    resolveTxt: (name) =>
      cached('TXT', name, (asked) =>
        plain(resolver.resolveTxt(asked), (records) =>
          records.length === 0 ? { status: 'no-data' } : { status: 'found', value: records.map((one) => one.join('')) },
        ),
      ),
    resolveCname: (name) =>
      cached('CNAME', name, (asked) =>
        plain(resolver.resolveCname(asked), ([target]) =>
          target === undefined ? { status: 'no-data' } : { status: 'found', value: target.toLowerCase() },
        ),
      ),
    close: () => {
      resolver.cancel();
      cache.clear();
    },
  };
}

export interface Cached<T> {
  value: T;
  ttlMs: number;
}

export interface DnsCache {
  /** The remembered answer, or the one that `ask` gives, remembered for its `ttlMs` (0: not at all). */
  get<T>(key: string, ask: () => Promise<Cached<T>>): Promise<T>;
  clear(): void;
}

/** `now` is in milliseconds and only compared with itself. */
export function dnsCache(options: { maxEntries: number; now?: () => number }): DnsCache {
  const now = options.now ?? (() => performance.now());
  const entries = new Map<string, { value: unknown; until: number }>();
  const asking = new Map<string, Promise<unknown>>();

  const askOnce = async <T>(key: string, ask: () => Promise<Cached<T>>): Promise<T> => {
    try {
      const { value, ttlMs } = await ask();
      if (ttlMs > 0) {
        if (entries.size >= options.maxEntries) entries.delete(entries.keys().next().value as string);
        entries.set(key, { value, until: now() + ttlMs });
      }
      return value;
    } finally {
      asking.delete(key);
    }
  };

  return {
    get: <T>(key: string, ask: () => Promise<Cached<T>>): Promise<T> => {
      const known = entries.get(key);
      if (known) {
        entries.delete(key);
        if (known.until > now()) {
          entries.set(key, known);
          return Promise.resolve(known.value as T);
        }
      }
      const underWay = asking.get(key);
      if (underWay) return underWay as Promise<T>;
      const asked = askOnce(key, ask);
      asking.set(key, asked);
      return asked;
    },
    clear: () => entries.clear(),
  };
}

/**
 * Sends DNS queries and returns the outcomes that a mail server distinguishes: found, no such domain, no data, or temporary failure.
 * Queries never reject. Names are sent in A-labels; an invalid name is `no-such-domain` without a query. CNAMEs are followed; a loop is
 * temporary (ECNAMELOOP), whatever the resolver returns for it.
 *
 * Answers are cached for their TTL, but at least 30 s and at most an hour. Negative answers are cached for as long as the zone's SOA allows
 * (RFC 2308), nonexistent names for at most a minute. Temporary failures are cached for two seconds.
 */
import { lookup } from 'node:dns';
import { isIP, isIPv4, isIPv6 } from 'node:net';
import { type Cached, dnsCache } from './dns-cache.ts';
import { isLocalhost, reverseName, toQueryName } from './dns-name.ts';
import {
  type LookUp,
  MIN_TTL_MS,
  openResolver,
  type RecordOf,
  type RecordType,
  type Resolver,
} from './dns-resolver.ts';
import { parseDnsServer, systemServers } from './dns-servers.ts';

export interface Found<T> {
  status: 'found';
  value: T;
  /** Whether DNSSEC validated every answer in the chain, including CNAMEs. Always false for queries to a zone's own servers. */
  secure: boolean;
  /** How long the answer is valid. */
  ttlMs: number;
}

type NotFound =
  /** NXDOMAIN, or an invalid name. `secure` is true if the answer was validated. */
  | { status: 'no-such-domain'; secure: boolean }
  /** The name exists, but has no records of this type. */
  | { status: 'no-data'; secure: boolean }
  /**
   * The query can be repeated later. `cause` is ESERVFAIL (including bogus DNSSEC), EREFUSED, EFORMERR, ENOTIMP, ETIMEOUT, EBADRESP, ELAME
   * (a referral), ECNAMELOOP, ECANCELLED, or the code of a socket error.
   */
  | { status: 'temporary'; cause: string };

export type DnsAnswer<T> = Found<T> | NotFound;

/**
 * IPv6 addresses, then IPv4. If one of the two queries failed, the other's addresses are used, and `secure` covers only the answer that was
 * received.
 */
export type AddressAnswer =
  /** `canonicalName` is the name at the end of the host's CNAMEs, or the host itself if it has none. */
  (Found<string[]> & { canonicalName: string }) | NotFound;

export interface MxHost {
  /** Lower case, A-labels, without the trailing dot. */
  host: string;
  preference: number;
}

interface MxAnswer {
  /** The domain accepts no mail (RFC 7505); `hosts` is then empty. */
  nullMx: boolean;
  /** Sorted by preference, best first, and in random order within a preference; at most 150. */
  hosts: MxHost[];
}

/** A TLSA record (RFC 6698 §2.1), whose numbers are not validated. */
export interface TlsaRecord {
  usage: number;
  selector: number;
  matching: number;
  data: Buffer;
}

export interface DnsOptions {
  /** `address` or `address:port` (`[v6]:port`); empty for the system's servers. */
  servers: readonly string[];
  /** Selects the servers whose AD bit is trusted: `off` for servers on this host only, `trust` for all. Default `off`. */
  dnssec?: 'off' | 'trust';
  /** Timeout of the first try in ms; later tries wait longer. Default 3,000. */
  timeoutMs?: number;
  /** Tries per server; default 2. */
  tries?: number;
  maxCacheEntries?: number;
}

export interface Dns {
  /** Returns the MX hosts (RFC 5321 §5.1). If it returns `no-data`, the caller must try resolveAddresses(domain). */
  resolveMx(domain: string): Promise<DnsAnswer<MxAnswer>>;
  /** Queries AAAA and A together, and returns at most 16 of each. An IP literal is `no-such-domain`. */
  resolveAddresses(host: string): Promise<AddressAnswer>;
  /** Queries A only, and returns at most 100 addresses, for callers that need to know whether this query failed. */
  resolveA(host: string): Promise<DnsAnswer<string[]>>;
  /** Queries AAAA only, and returns at most 100 addresses. */
  resolveAaaa(host: string): Promise<DnsAnswer<string[]>>;
  /**
   * Works like resolveAddresses with IPv4 first, for hosts that an operator or a user configured. Also accepts IP literals, `localhost`,
   * names without a dot, and, with the system's servers, everything else that the system resolves (hosts file, search domains).
   */
  lookupHost(host: string): Promise<DnsAnswer<string[]>>;
  /** Returns each record with its strings joined. */
  resolveTxt(name: string): Promise<DnsAnswer<string[]>>;
  /** Returns the CNAME at the name itself. */
  resolveCname(name: string): Promise<DnsAnswer<string>>;
  /** Returns the name servers of the zone at this name; `no-data` for a name within a zone. */
  resolveNs(name: string): Promise<DnsAnswer<string[]>>;
  /** Returns the names of an address, at most 16; `no-such-domain` if it is not an address. */
  resolvePtr(address: string): Promise<DnsAnswer<string[]>>;
  /** Returns the TLSA records of a name such as `_25._tcp.mx.example.com`, at most 32. */
  resolveTlsa(name: string): Promise<DnsAnswer<TlsaRecord[]>>;
  /**
   * Returns the same queries for these servers (`address` or `address:port`), which are tried one after the other, for their own data and
   * without the cache. A CNAME that points outside their zones is followed with the usual servers. Closing the parent also closes it.
   * Throws if a server is invalid.
   */
  atServers(servers: readonly string[]): Dns;
  /** Closes the resolver. Pending queries end as temporary failures. */
  close(): void;
}

const MAX_MX = 150;
const MAX_ADDRESSES = 16;
/** Per query for a single type. */
const MAX_OF_TYPE = 100;
const MAX_NAMES = 16;
const MAX_TLSA = 32;
const MAX_CACHE_BYTES = 32 * 1024 * 1024;
const TEMPORARY_TTL_MS = 2_000;
const NO_SUCH_NAME = { status: 'no-such-domain', secure: false } as const;

function shuffle<T>(list: T[]): T[] {
  for (let i = list.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1));
    [list[i], list[j]] = [list[j]!, list[i]!];
  }
  return list;
}

/** Sorts, limits, and normalizes the records. */
function toMxAnswer(records: RecordOf<'MX'>[]): MxAnswer {
  const named = records.filter(({ data }) => data.exchange !== '.' && data.exchange !== '');
  if (named.length === 0) return { nullMx: true, hosts: [] };
  const hosts = shuffle(named)
    .sort((a, b) => (a.data.preference ?? 0) - (b.data.preference ?? 0))
    .flatMap(({ data }) => {
      const host = toQueryName(data.exchange);
      return host === undefined ? [] : [{ host, preference: data.preference ?? 0 }];
    })
    .slice(0, MAX_MX);
  // Even if no record has a valid host name (but an address, for example), the domain exists.
  return { nullMx: false, hosts };
}

function toText({ data }: RecordOf<'TXT'>): string {
  return (Array.isArray(data) ? data : [data]).join('');
}

function toTlsa({ data }: RecordOf<'TLSA'>): TlsaRecord {
  const { usage, selector, matchingType, certificate } = data;
  return { usage, selector, matching: matchingType, data: Buffer.from(certificate) };
}

function toNames(records: { data: string }[]): string[] {
  return records.slice(0, MAX_NAMES).map(({ data }) => data.toLowerCase());
}

function toAddresses(records: { data: string }[]): string[] {
  return records.slice(0, MAX_OF_TYPE).map(({ data }) => data);
}

/** Converts a lookup result and sets how long it is cached. */
function converted<T extends RecordType, U>(
  found: LookUp<T>,
  convert: (records: RecordOf<T>[]) => U,
): Cached<DnsAnswer<U>> {
  if (found.status === 'temporary') return { value: found, ttlMs: TEMPORARY_TTL_MS };
  const { status, secure, ttlMs } = found;
  if (status !== 'found') return { value: { status, secure }, ttlMs };
  return { value: { status, value: convert(found.records), secure, ttlMs }, ttlMs };
}

/** Combines the two answers: found takes precedence over a failure, and a failure over no data. */
function joinAddresses(v6: LookUp<'AAAA'>, v4: LookUp<'A'>): Cached<AddressAnswer> {
  const temporary = [v6, v4].find((one) => one.status === 'temporary');
  const secure = [v6, v4].every((one) => one.status === 'temporary' || one.secure);
  const found = [v6, v4].filter((one) => one.status === 'found');
  if (found[0]) {
    const value = found.flatMap(({ records }) => records.slice(0, MAX_ADDRESSES).map(({ data }) => data));
    const ttlMs = temporary ? MIN_TTL_MS : Math.min(...found.map((one) => one.ttlMs));
    return { value: { status: 'found', value, canonicalName: found[0].canonicalName, secure, ttlMs }, ttlMs };
  }
  if (temporary) return { value: temporary, ttlMs: TEMPORARY_TTL_MS };
  const negative = [v6, v4].filter((one) => one.status !== 'temporary');
  const status = negative.some((one) => one.status === 'no-such-domain') ? 'no-such-domain' : 'no-data';
  return { value: { status, secure }, ttlMs: Math.min(...negative.map((one) => one.ttlMs)) };
}

/** Puts IPv4 addresses first, for callers that try one address after the other. */
function ipv4First(addresses: readonly string[]): string[] {
  return [...addresses.filter(isIPv4), ...addresses.filter(isIPv6)];
}

/** Uses the system's resolver (hosts file, search domains), which blocks one of libuv's few threads. */
function systemLookup(host: string): Promise<Cached<DnsAnswer<string[]>>> {
  const ttlMs = MIN_TTL_MS;
  return new Promise((resolve) => {
    lookup(host, { all: true, order: 'ipv4first' }, (error, found) => {
      const value = (found ?? []).map((entry) => entry.address);
      if (!error) resolve({ value: { status: 'found', value, secure: false, ttlMs }, ttlMs });
      else if (error.code !== 'EAI_AGAIN') resolve({ value: NO_SUCH_NAME, ttlMs });
      else resolve({ value: { status: 'temporary', cause: error.code }, ttlMs: TEMPORARY_TTL_MS });
    });
  });
}

/** Returns an answer, cached or not, with its remaining lifetime. */
type Remember = <T extends DnsAnswer<unknown>>(key: string, query: () => Promise<Cached<T>>) => Promise<T>;

type Queries = Omit<Dns, 'lookupHost' | 'atServers' | 'close'>;

function createQueries(resolver: Pick<Resolver, 'lookUp'>, remember: Remember): Queries {
  const query = async <T extends RecordType, U>(
    type: T,
    name: string,
    convert: (records: RecordOf<T>[]) => U,
  ): Promise<DnsAnswer<U>> => {
    const requested = toQueryName(name);
    if (requested === undefined) return NO_SUCH_NAME;
    return remember(`${type} ${requested}`, async () => converted(await resolver.lookUp(requested, type), convert));
  };
  return {
    resolveMx: (domain) => query('MX', domain, toMxAnswer),
    resolveAddresses: async (host) => {
      const name = toQueryName(host);
      if (name === undefined) return NO_SUCH_NAME;
      return remember(`ADDRESS ${name}`, async () =>
        joinAddresses(...(await Promise.all([resolver.lookUp(name, 'AAAA'), resolver.lookUp(name, 'A')]))),
      );
    },
    resolveA: (host) => query('A', host, toAddresses),
    resolveAaaa: (host) => query('AAAA', host, toAddresses),
    resolveTxt: (name) => query('TXT', name, (records) => records.map(toText)),
    resolveCname: (name) => query('CNAME', name, ([record]) => record!.data.toLowerCase()),
    resolveNs: (name) => query('NS', name, toNames),
    resolvePtr: async (address) => {
      const name = reverseName(address);
      return name === undefined ? NO_SUCH_NAME : query('PTR', name, toNames);
    },
    resolveTlsa: (name) => query('TLSA', name, (records) => records.slice(0, MAX_TLSA).map(toTlsa)),
  };
}

/** Creates a resolver with its cache. Throws if a server is neither an address nor address:port. */
export function openDns(options: DnsOptions): Dns {
  const configured = options.servers.map(parseDnsServer);
  const resolver = openResolver({
    servers: configured.length > 0 ? () => configured : systemServers(),
    timeoutMs: options.timeoutMs ?? 3_000,
    tries: options.tries ?? 2,
    trustEveryServer: options.dnssec === 'trust',
  });
  const cache = dnsCache({ maxEntries: options.maxCacheEntries ?? 20_000, maxBytes: MAX_CACHE_BYTES });
  const remember: Remember = async (key, query) => {
    const { value, ttlMs } = await cache.get(key, query);
    return value.status === 'found' ? { ...value, ttlMs } : value;
  };
  const withoutCache: Remember = async (_key, query) => (await query()).value;

  const usual = createQueries(resolver, remember);
  const lookupHost: Dns['lookupHost'] = async (host) => {
    const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
    const known = { status: 'found', secure: false, ttlMs: MIN_TTL_MS } as const;
    if (isIP(bare) !== 0) return { ...known, value: [bare] };
    // Returns both loopback addresses, whether the host has them or not.
    if (isLocalhost(bare)) return { ...known, value: ['127.0.0.1', '::1'] };
    // Only the system knows the search domains for a name without a dot.
    if (bare.includes('.')) {
      const resolved = await usual.resolveAddresses(bare);
      if (resolved.status === 'found') return { ...resolved, value: ipv4First(resolved.value) };
      if (configured.length > 0) return resolved;
    }
    const name = toQueryName(bare);
    return name === undefined ? NO_SUCH_NAME : remember(`SYSTEM ${name}`, () => systemLookup(name));
  };
  const atServers: Dns['atServers'] = (servers) => {
    const requested = resolver.at(servers.map(parseDnsServer));
    return { ...createQueries(requested, withoutCache), lookupHost, atServers, close: () => undefined };
  };
  return {
    ...usual,
    lookupHost,
    atServers,
    close: () => {
      resolver.close();
      cache.clear();
    },
  };
}

/**
 * DNS queries with the answers that a mailer needs: found, no such domain, no data, or temporary. An answer never throws. Names are queried
 * in A-labels; an impossible name is `no-such-domain` without a query. CNAMEs are followed; a loop is temporary (ECNAMELOOP), whatever the
 * resolver returns for it.
 *
 * Answers are cached for their TTL, between 30 s and an hour; negative ones as the zone's SOA says (RFC 2308), nonexistent names for a
 * minute at most; temporary failures for two seconds.
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
  /** Validated by DNSSEC: every answer in the chain, including CNAMEs. Always false for a zone's own servers. */
  secure: boolean;
  /** How long the answer is valid. */
  ttlMs: number;
}

type NotFound =
  /** NXDOMAIN, or an impossible name; `secure` if the answer was validated. */
  | { status: 'no-such-domain'; secure: boolean }
  /** The name exists without records of this type. */
  | { status: 'no-data'; secure: boolean }
  /**
   * Ask again later. `cause` is ESERVFAIL (including bogus DNSSEC), EREFUSED, EFORMERR, ENOTIMP, ETIMEOUT, EBADRESP, ELAME (a referral),
   * ECNAMELOOP, ECANCELLED, or the socket's code.
   */
  | { status: 'temporary'; cause: string };

export type DnsAnswer<T> = Found<T> | NotFound;

/**
 * IPv6 addresses, then IPv4. If one of the two questions failed, the other's addresses are used, and `secure` covers only what was
 * answered.
 */
export type AddressAnswer =
  /** `canonicalName`: where the host's CNAMEs end; the host itself without any. */
  (Found<string[]> & { canonicalName: string }) | NotFound;

export interface MxHost {
  /** Lower case, A-labels, without the trailing dot. */
  host: string;
  preference: number;
}

interface MxAnswer {
  /** RFC 7505: the domain accepts no mail. `hosts` is then empty. */
  nullMx: boolean;
  /** Best first, in random order within a preference, at most 150. */
  hosts: MxHost[];
}

/** RFC 6698 §2.1, with unchecked numbers. */
export interface TlsaRecord {
  usage: number;
  selector: number;
  matching: number;
  data: Buffer;
}

export interface DnsOptions {
  /** `address` or `address:port` (`[v6]:port`); empty for the system's servers. */
  servers: readonly string[];
  /** Whose AD bit is trusted: `off` for servers on this host only, `trust` for all. Default `off`. */
  dnssec?: 'off' | 'trust';
  /** Timeout of the first try in ms; later tries wait longer. Default 3,000. */
  timeoutMs?: number;
  /** Per server; default 2. */
  tries?: number;
  maxCacheEntries?: number;
}

export interface Dns {
  /** RFC 5321 §5.1. The caller falls back to resolveAddresses(domain) on `no-data`. */
  resolveMx(domain: string): Promise<DnsAnswer<MxAnswer>>;
  /** AAAA and A together, at most 16 of each. An IP literal is `no-such-domain`. */
  resolveAddresses(host: string): Promise<AddressAnswer>;
  /**
   * Like resolveAddresses with IPv4 first, for hosts that an operator or a user configured: also accepts IP literals, `localhost`, names
   * without a dot, and, with the system's servers, whatever else the system resolves (hosts file, search domains).
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
  /** For a name such as `_25._tcp.mx.example.com`; at most 32 records. */
  resolveTlsa(name: string): Promise<DnsAnswer<TlsaRecord[]>>;
  /**
   * The same queries to these servers (`address` or `address:port`), one after the other, for their own data and without the cache. A CNAME
   * out of their zones is followed with the usual servers. Closes with its parent. Throws if a server is invalid.
   */
  atServers(servers: readonly string[]): Dns;
  /** Pending questions end as temporary failures. */
  close(): void;
}

const MAX_MX = 150;
const MAX_ADDRESSES = 16;
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

/** Converts a result, with its caching time, which `found` also contains. */
function converted<T extends RecordType, U>(
  found: LookUp<T>,
  convert: (records: RecordOf<T>[]) => U,
): Cached<DnsAnswer<U>> {
  if (found.status === 'temporary') return { value: found, ttlMs: TEMPORARY_TTL_MS };
  const { status, secure, ttlMs } = found;
  if (status !== 'found') return { value: { status, secure }, ttlMs };
  return { value: { status, value: convert(found.records), secure, ttlMs }, ttlMs };
}

/** Combines the two answers: found takes precedence over failed, failed over no data. */
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
  const nothing = [v6, v4].filter((one) => one.status !== 'temporary');
  const status = nothing.some((one) => one.status === 'no-such-domain') ? 'no-such-domain' : 'no-data';
  return { value: { status, secure }, ttlMs: Math.min(...nothing.map((one) => one.ttlMs)) };
}

/** For callers that try one address after the other. */
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
type Remember = <T extends DnsAnswer<unknown>>(key: string, ask: () => Promise<Cached<T>>) => Promise<T>;

type Questions = Omit<Dns, 'lookupHost' | 'atServers' | 'close'>;

function questions(resolver: Pick<Resolver, 'lookUp'>, remember: Remember): Questions {
  const ask = async <T extends RecordType, U>(
    type: T,
    name: string,
    convert: (records: RecordOf<T>[]) => U,
  ): Promise<DnsAnswer<U>> => {
    const requested = toQueryName(name);
    if (requested === undefined) return NO_SUCH_NAME;
    return remember(`${type} ${requested}`, async () => converted(await resolver.lookUp(requested, type), convert));
  };
  return {
    resolveMx: (domain) => ask('MX', domain, toMxAnswer),
    resolveAddresses: async (host) => {
      const name = toQueryName(host);
      if (name === undefined) return NO_SUCH_NAME;
      return remember(`ADDRESS ${name}`, async () =>
        joinAddresses(...(await Promise.all([resolver.lookUp(name, 'AAAA'), resolver.lookUp(name, 'A')]))),
      );
    },
    resolveTxt: (name) => ask('TXT', name, (records) => records.map(toText)),
    resolveCname: (name) => ask('CNAME', name, ([record]) => record!.data.toLowerCase()),
    resolveNs: (name) => ask('NS', name, toNames),
    resolvePtr: async (address) => {
      const name = reverseName(address);
      return name === undefined ? NO_SUCH_NAME : ask('PTR', name, toNames);
    },
    resolveTlsa: (name) => ask('TLSA', name, (records) => records.slice(0, MAX_TLSA).map(toTlsa)),
  };
}

/** Creates a resolver with its cache. Throws if a server is neither an address nor address:port. */
export function openDns(options: DnsOptions): Dns {
  const own = options.servers.map(parseDnsServer);
  const resolver = openResolver({
    servers: own.length > 0 ? () => own : systemServers(),
    timeoutMs: options.timeoutMs ?? 3_000,
    tries: options.tries ?? 2,
    trustEveryServer: options.dnssec === 'trust',
  });
  const cache = dnsCache({ maxEntries: options.maxCacheEntries ?? 20_000, maxBytes: MAX_CACHE_BYTES });
  const remember: Remember = async (key, ask) => {
    const { value, ttlMs } = await cache.get(key, ask);
    return value.status === 'found' ? { ...value, ttlMs } : value;
  };
  const never: Remember = async (_key, ask) => (await ask()).value;

  const usual = questions(resolver, remember);
  const lookupHost: Dns['lookupHost'] = async (host) => {
    const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
    const known = { status: 'found', secure: false, ttlMs: MIN_TTL_MS } as const;
    if (isIP(bare) !== 0) return { ...known, value: [bare] };
    // Both loopback addresses, whether the host has them or not.
    if (isLocalhost(bare)) return { ...known, value: ['127.0.0.1', '::1'] };
    // Only the system knows the search domains for a name without a dot.
    if (bare.includes('.')) {
      const named = await usual.resolveAddresses(bare);
      if (named.status === 'found') return { ...named, value: ipv4First(named.value) };
      if (own.length > 0) return named;
    }
    const name = toQueryName(bare);
    return name === undefined ? NO_SUCH_NAME : remember(`SYSTEM ${name}`, () => systemLookup(name));
  };
  const atServers: Dns['atServers'] = (servers) => {
    const requested = resolver.at(servers.map(parseDnsServer));
    return { ...questions(requested, never), lookupHost, atServers, close: () => undefined };
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

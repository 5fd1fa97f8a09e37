/**
 * Resolves the hosts for a message: the operator's relay, or the MX hosts of the recipient's domain (RFC 5321 §5.1). Returns candidates in
 * the order in which they are tried. If there are none, returns the reason as evidence for outcome.ts.
 *
 * MX delivery connects only to public addresses, except those that POSTRIDER_MX_ALLOW permits. If all MX hosts of a domain have only
 * addresses that are not permitted, the message bounces (5.4.4, policy), because domains that accept no mail often publish an MX of
 * 127.0.0.1. Postrider does not suppress the recipient, since a DNS mistake may be corrected. If an MX host is this service, it is dropped
 * together with all hosts of the same or a higher preference value (§5.1), even if the current attempt would not try it. If no host is
 * left, the message would loop, so it bounces (5.4.6). If the domain has inbound routes, the message goes to the inbound port of this
 * process instead or, if another node has the inbound port, to the published MX hosts.
 *
 * MX hosts of equal preference are tried in random order; hosts that failed recently are tried after all others. An attempt tries up to 5
 * hosts with up to 5 addresses each, alternating between IPv6 and IPv4. If a domain has more than 5 hosts, their order is chosen once per
 * email, and each attempt starts 5 hosts later, so that all are tried. If source addresses are configured, Postrider does not dial
 * addresses of a family without a source address. The address of a relay may be private, because the operator configured it.
 */

import { hash } from 'node:crypto';
import type { RelayRoute, Route } from '../../config.ts';
import { domainToAscii } from '../../mail/address.ts';
import { addressRefusal, type Cidr, isInRanges } from '../../net/address-guard.ts';
import type { AddressAnswer, Dns, MxHost } from '../../net/dns.ts';
import { POLICY_UNMET } from '../../net/error-sentence.ts';
import type { SmtpAuth, TokenSource } from '../../net/smtp-client.ts';
import { interleaveFamilies } from '../../net/smtp-connect.ts';
import type { SourceAddresses } from '../../net/source-addresses.ts';
import type { HostPolicy, TlsPolicies } from '../../tls-policy/tls-policy.ts';
import type { Evidence } from '../outcome/outcome.ts';

export interface Candidate {
  host: string;
  /** The addresses that an attempt may still dial, in order. */
  addresses: string[];
  allAddresses: readonly string[];
  port: number;
  tls: 'opportunistic' | 'implicit';
  verifyCertificate: boolean;
  auth?: SmtpAuth;
  /** TLS requirements of the domain for a connection to this host. */
  policy?: HostPolicy;
}

export type RouteResolution =
  | { ok: true; candidates: Candidate[] }
  /** `tlsPolicy` is the policy that forbids the connection. */
  | { ok: false; evidence: Evidence; tlsPolicy?: HostPolicy['name'] | undefined };

export interface Routing {
  route: Route;
  /** Relay for mail to destinations that block this host. */
  fallback?: RelayRoute | undefined;
  /** Returns the access tokens for a relay with OAuth 2.0. */
  tokensOf?(relay: RelayRoute): TokenSource | undefined;
  dns: Dns;
  mxPort: number;
  mxAllow: readonly Cidr[];
  own: OwnHost;
  sources: SourceAddresses;
  /** TLS requirements of recipients' domains for connections to their MX hosts; no requirements if absent. */
  policies?: Pick<TlsPolicies, 'ofDomain'> | undefined;
}

/** Identifies MX hosts that are this service. */
export interface OwnHost {
  /** Name that this service sends in EHLO, in lower case. */
  name: string;
  /** Addresses on which the service accepts mail on port 25. */
  addresses: readonly Cidr[];
  /** Returns whether inbound routes accept mail for a domain (A-labels). */
  hasRoutes(domain: string): Promise<boolean>;
  /** Returns the address on which this process listens for inbound mail; undefined if it does not listen. */
  inbound(): { address: string; port: number } | undefined;
}

/** Key of the destination that all mail shares with a relay. */
export const RELAY = 'relay';
/** Key of the relay for destinations that block this host. */
export const FALLBACK = 'fallback';
/** The destination of all sandbox mail; it needs no connections. */
export const SANDBOX = 'sandbox';

/** Destinations that mail of all domains shares. Queue quotas per destination do not apply to them. No provider has such a name. */
export const SHARED_DESTINATIONS: ReadonlySet<string> = new Set([RELAY, FALLBACK, SANDBOX]);

/** TLS for connections to an MX host, unless its domain requires more. */
const MX_TLS = { tls: 'opportunistic', verifyCertificate: false } as const;
const MAX_HOSTS = 5;
const MAX_ADDRESSES = 5;
/** Maximum number of MX hosts looked up for an attempt: those tried now, and others that are no worse, to detect this service. */
const MAX_LOOKED_UP = 25;

/** Returns the key of the destination for a recipient: the relay, or the recipient's domain in A-labels. */
export function routedDomainOf(routing: Pick<Routing, 'route'>, recipient: string): string {
  if (routing.route.kind === 'relay') return RELAY;
  return domainOf(recipient);
}

/** Returns the domain of the recipient in A-labels. */
export function domainOf(recipient: string): string {
  const domain = recipient.slice(recipient.lastIndexOf('@') + 1);
  return domainToAscii(domain) ?? domain.toLowerCase();
}

/** Returns whether a destination is one of the operator's relays. */
export function isRelay(destination: string): boolean {
  return destination === RELAY || destination === FALLBACK;
}

function relayOf({ route, fallback }: Routing, destination: string): RelayRoute | undefined {
  if (destination === FALLBACK) return fallback;
  return route.kind === 'relay' ? route.relay : undefined;
}

export interface HostOrdering {
  /** Returns whether a host failed recently and is tried last. */
  isBackedOff(host: string): boolean;
  /** Number of earlier attempts. */
  attempts: number;
  /** Sequence number of the email. If a domain has many MX hosts, all attempts of an email use the same order. */
  emailSeq: number;
}

/** Looks up the hosts for a destination. DNS errors are returned, not thrown. */
export function resolveRoute(routing: Routing, destination: string, ordering: HostOrdering): Promise<RouteResolution> {
  const relay = relayOf(routing, destination);
  if (relay) return resolveRelay(routing, relay);
  return resolveMxHosts(routing, { domain: destination, ordering });
}

/** Orders hosts by preference, at random within one preference (RFC 5321 §5.1). Hosts that failed recently come last, in the same order. */
export function orderHosts(hosts: readonly MxHost[], { isBackedOff, attempts, emailSeq }: HostOrdering): MxHost[] {
  const isRotated = hosts.length > MAX_HOSTS;
  const ranked = hosts.map((mx) => ({ mx, rank: isRotated ? rankOf(emailSeq, mx.host) : Math.random() }));
  ranked.sort((a, b) => a.mx.preference - b.mx.preference || a.rank - b.rank);
  const all = ranked.map(({ mx }) => mx);
  const from = isRotated ? (attempts * MAX_HOSTS) % all.length : 0;
  const rotated = [...all.slice(from), ...all.slice(0, from)];
  return [...rotated.filter(({ host }) => !isBackedOff(host)), ...rotated.filter(({ host }) => isBackedOff(host))];
}

/** Returns a pseudo-random number that is the same for all attempts of an email to this host. */
function rankOf(emailSeq: number, host: string): number {
  return hash('sha256', `${emailSeq} ${host}`, 'buffer').readUInt32BE();
}

/** Returns the hosts to try now, followed by the other hosts that are no worse than the worst of these. */
function hostsToLookUp(ordered: readonly MxHost[]): MxHost[] {
  const current = ordered.slice(0, MAX_HOSTS);
  const worst = Math.max(...current.map(({ preference }) => preference));
  const others = ordered.slice(MAX_HOSTS).filter(({ preference }) => preference <= worst);
  return [...current, ...others.sort((a, b) => a.preference - b.preference)].slice(0, MAX_LOOKED_UP);
}

/** Drops the hosts that are this service, and all hosts of the same or a higher preference value (RFC 5321 §5.1). */
function dropOwnAndWorse<T extends MxHost>(hosts: readonly T[], isOwn: (one: T) => boolean): T[] {
  const best = Math.min(...hosts.filter(isOwn).map((one) => one.preference));
  return hosts.filter((one) => one.preference < best);
}

function temporary(message: string, options: { cause: string; relay: boolean }): RouteResolution {
  return { ok: false, evidence: { stage: 'dns', message, ...options } };
}

function permanent(code: number, enhanced: string, text: string): RouteResolution {
  return { ok: false, evidence: { stage: 'dns', relay: false, local: { code, enhanced, text } } };
}

function authOf({ tokensOf }: Routing, relay: RelayRoute): SmtpAuth | undefined {
  const tokens = relay.oauth && tokensOf?.(relay);
  return relay.oauth && tokens ? { user: relay.oauth.user, tokens } : relay.auth;
}

async function resolveRelay(routing: Routing, relay: RelayRoute): Promise<RouteResolution> {
  const answer = await routing.dns.lookupHost(relay.host);
  if (answer.status !== 'found') {
    const cause = answer.status === 'temporary' ? answer.cause : 'ENOTFOUND';
    return temporary(`the relay ${relay.host} has no address (${cause})`, { cause, relay: true });
  }
  const addresses = answer.value.slice(0, MAX_ADDRESSES);
  const auth = authOf(routing, relay);
  // Certificates do not cover private addresses. A relay with a public address must prove its identity before it gets credentials.
  const isPublic = addresses.every((address) => addressRefusal(address, []) === undefined);
  return {
    ok: true,
    candidates: [
      {
        host: relay.host,
        addresses,
        allAddresses: addresses,
        port: relay.port,
        tls: relay.implicitTls ? 'implicit' : 'opportunistic',
        verifyCertificate: isPublic && (relay.implicitTls || auth !== undefined),
        ...(auth && { auth }),
      },
    ],
  };
}

async function resolveMxHosts(
  routing: Routing,
  { domain, ordering }: { domain: string; ordering: HostOrdering },
): Promise<RouteResolution> {
  const mx = await routing.dns.resolveMx(domain);
  if (mx.status === 'temporary') {
    return temporary(`the MX records of ${domain} cannot be looked up (${mx.cause})`, {
      cause: mx.cause,
      relay: false,
    });
  }
  if (mx.status === 'no-such-domain') return permanent(550, '5.1.2', `the domain ${domain} does not exist`);
  if (mx.status === 'found' && mx.value.nullMx) {
    // RFC 7505 §4.1 requires 556 5.1.10.
    return permanent(556, '5.1.10', `the domain ${domain} does not accept mail (null MX)`);
  }
  if (mx.status === 'found' && mx.value.hosts.length === 0) {
    return permanent(
      550,
      '5.4.4',
      `the MX records of ${domain} contain no valid host name (an IP address is not a host name)`,
    );
  }
  // RFC 5321 §5.1: without MX records, the domain itself is the host.
  const listed = mx.status === 'found' ? mx.value.hosts : [{ host: domain, preference: 0 }];
  const others = dropOwnAndWorse(listed, ({ host }) => host === routing.own.name);
  if (others.length === 0) return resolveOwnHost(routing, { domain, listed, ordering });
  const ordered = orderHosts(others, ordering);
  const found = await lookUp(routing, hostsToLookUp(ordered));
  const usable = dropOwnAndWorse(found, (one) => isOwn(routing, one));
  if (usable.length === 0 && found.length > 0) return resolveOwnHost(routing, { domain, listed, ordering });
  // If a host was dropped because it is this service, all worse hosts were dropped with it.
  const isAll = usable.length <= MAX_HOSTS && (found.length === others.length || usable.length < found.length);
  return chooseHosts(routing, { domain, found: usable.slice(0, MAX_HOSTS), isAll });
}

/**
 * Resolves a domain whose best MX host is this service. If the inbound routes cannot be read, assumes that the domain has some, because the
 * inbound port checks the recipients.
 */
async function resolveOwnHost(
  routing: Routing,
  { domain, listed, ordering }: { domain: string; listed: readonly MxHost[]; ordering: HostOrdering },
): Promise<RouteResolution> {
  const { own } = routing;
  if (!(await own.hasRoutes(domain).catch(() => true))) return mailLoop(routing, domain);
  const inbound = own.inbound();
  if (inbound) {
    const { address, port } = inbound;
    return {
      ok: true,
      candidates: [{ host: own.name, addresses: [address], allAddresses: [address], port, ...MX_TLS }],
    };
  }
  const ordered = orderHosts(listed, ordering);
  const found = await lookUp(routing, ordered.slice(0, MAX_HOSTS));
  return chooseHosts(routing, { domain, found, isAll: ordered.length <= MAX_HOSTS });
}

/** Adds the TLS requirements of the domain to each host, and drops hosts to which they currently forbid connections. */
async function applyTlsPolicies(
  { policies }: Routing,
  domain: string,
  hosts: readonly Candidate[],
): Promise<RouteResolution> {
  const domainPolicy = await policies?.ofDomain(domain);
  if (!domainPolicy) return { ok: true, candidates: [...hosts] };
  const decided = await Promise.all(
    hosts.map(async (candidate) => ({ candidate, result: await domainPolicy.ofHost(candidate.host, candidate.port) })),
  );
  // Report failures only of hosts before the first permitted one.
  for (const { result } of decided) {
    if (result.ok) break;
    result.note?.();
  }
  const candidates = decided.flatMap(({ candidate, result }) =>
    result.ok ? [{ ...candidate, ...(result.policy && { policy: result.policy }) }] : [],
  );
  if (candidates.length > 0) return { ok: true, candidates };
  const [first] = decided.flatMap(({ result }) => (result.ok ? [] : [result]));
  const evidence = { stage: 'tls' as const, cause: POLICY_UNMET, message: first!.reason, relay: false };
  return { ok: false, evidence, tlsPolicy: first!.name };
}

interface ResolvedHost extends MxHost {
  answer: AddressAnswer;
}

function addressesOf({ answer }: ResolvedHost): string[] {
  return answer.status === 'found' ? answer.value : [];
}

/** Returns whether an MX host is this service, by its name after CNAMEs or by one of its addresses. */
function isOwn({ own }: Routing, mx: ResolvedHost): boolean {
  const { answer } = mx;
  if (answer.status === 'found' && answer.canonicalName === own.name) return true;
  return addressesOf(mx).some((address) => isInRanges(address, own.addresses));
}

function lookUp({ dns }: Routing, hosts: readonly MxHost[]): Promise<ResolvedHost[]> {
  return Promise.all(hosts.map(async (mx) => ({ ...mx, answer: await dns.resolveAddresses(mx.host) })));
}

/**
 * Returns the MX hosts with usable addresses, each with the TLS requirements of the domain. `isAll` means that `found` contains every MX
 * host of the domain that is not dropped as this service.
 */
async function chooseHosts(
  routing: Routing,
  { domain, found, isAll }: { domain: string; found: readonly ResolvedHost[]; isAll: boolean },
): Promise<RouteResolution> {
  const { mxAllow, mxPort, sources } = routing;
  const candidates: Candidate[] = [];
  const refused: string[] = [];
  let unreachable: string | undefined;
  for (const mx of found) {
    const { host } = mx;
    const permitted: string[] = [];
    for (const address of addressesOf(mx)) {
      const reason = addressRefusal(address, mxAllow);
      if (reason !== undefined) refused.push(`${host} [${address}]: ${reason}`);
      else if (sources.reach(address)) permitted.push(address);
      else unreachable ??= address;
    }
    if (permitted.length === 0) continue;
    const addresses = interleaveFamilies(permitted).slice(0, MAX_ADDRESSES);
    candidates.push({
      host,
      addresses,
      allAddresses: addresses,
      port: mxPort,
      ...MX_TLS,
    });
  }
  if (candidates.length > 0) return applyTlsPolicies(routing, domain, candidates);
  const causes = found.flatMap(({ answer }) => (answer.status === 'temporary' ? [answer.cause] : []));
  if (causes.length > 0) {
    const message = `the addresses of the MX hosts of ${domain} cannot be looked up (${causes[0]})`;
    return temporary(message, { cause: causes[0]!, relay: false });
  }
  if (unreachable !== undefined) {
    const message = `POSTRIDER_SOURCE_ADDRESSES has no address of the family of ${unreachable}, an MX host of ${domain}`;
    return temporary(message, { cause: 'ENETUNREACH', relay: false });
  }
  if (!isAll) {
    const message = `the MX hosts of ${domain} that were looked up have no usable address`;
    return temporary(message, { cause: 'ENOADDRESS', relay: false });
  }
  if (refused.length > 0) {
    const list = refused.slice(0, 3).join(', ');
    return permanent(554, '5.4.4', `the MX hosts of ${domain} have addresses that are not public (${list})`);
  }
  const hosts = found.map(({ host }) => host);
  const cause =
    hosts.length === 0 || (hosts.length === 1 && hosts[0] === domain)
      ? `the domain ${domain} has no MX record and no address`
      : `the MX hosts of ${domain} have no address (${hosts.slice(0, 3).join(', ')})`;
  return permanent(550, '5.4.4', cause);
}

function mailLoop({ own }: Routing, domain: string): RouteResolution {
  return permanent(550, '5.4.6', `the MX record of ${domain} points to this service (${own.name}): mail loop`);
}

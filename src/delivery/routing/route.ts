/**
 * Resolves where a message goes next: to the operator's relay, or to the MX hosts of the recipient's domain (RFC 5321 §5.1). Returns
 * candidates in the order in which they are tried, or why there are none, as evidence for outcome.ts.
 *
 * MX delivery connects to public addresses only, whatever the DNS says, except as POSTRIDER_MX_ALLOW permits. If all MX hosts of a domain
 * have refused addresses, the message bounces (5.4.4, policy): an MX of 127.0.0.1 is a common way to say that a domain accepts no mail. The
 * address is not suppressed, since a DNS mistake may be corrected. An MX host that is this service is dropped together with all hosts that
 * are no better (§5.1), also if it is not among those tried now; if none is left the message would loop, and bounces (5.4.6). But Postrider
 * accepts mail for domains with inbound routes: it goes to the inbound port of this process or, if another node has that, to the published
 * MX hosts.
 *
 * MX hosts of one preference come in random order each time; those that failed recently come after all others. An attempt tries up to 5
 * hosts with up to 5 addresses each, IPv6 and IPv4 alternating, however many the domain lists. If there are more than 5, the order is drawn
 * once per email, and each attempt starts 5 hosts later, so that all are tried. If source addresses are configured, addresses of a family
 * without one are not dialed. The relay is set by the operator, so its address may be private.
 */
import { hash } from 'node:crypto';
import type { RelayRoute, Route } from '../../config.ts';
import { domainToAscii } from '../../mail/address.ts';
import { addressRefusal, type Cidr, isInRanges } from '../../net/address-guard.ts';
import type { AddressAnswer, Dns, MxHost } from '../../net/dns.ts';
import { interleaveFamilies } from '../../net/smtp-connect.ts';
import type { SourceAddresses } from '../../net/source-addresses.ts';
import { type HostPolicy, POLICY_UNMET, type TlsPolicies } from '../../tls-policy/tls-policy.ts';
import type { Evidence } from '../outcome/outcome.ts';

export interface Candidate {
  host: string;
  /** The addresses that an attempt may still dial, in order. */
  addresses: string[];
  allAddresses: readonly string[];
  port: number;
  tls: 'opportunistic' | 'implicit';
  verifyCertificate: boolean;
  auth?: { user: string; pass: string };
  /** What the domain requires of a connection to this host. */
  policy?: HostPolicy;
}

export type Resolved =
  | { ok: true; candidates: Candidate[] }
  /** `tlsPolicy` is the policy that forbids the connection. */
  | { ok: false; evidence: Evidence; tlsPolicy?: HostPolicy['name'] | undefined };

export interface Routing {
  route: Route;
  /** Receives mail for destinations that block this host. */
  fallback?: RelayRoute | undefined;
  dns: Dns;
  mxPort: number;
  mxAllow: readonly Cidr[];
  own: OwnHost;
  sources: SourceAddresses;
  /** What recipients' domains require of connections to their MX hosts; nothing if absent. */
  policies?: Pick<TlsPolicies, 'ofDomain'> | undefined;
}

/** How MX hosts are recognized as this service itself. */
export interface OwnHost {
  /** The name in EHLO; lower case. */
  name: string;
  /** Addresses on which the service accepts mail on port 25. */
  addresses: readonly Cidr[];
  /** Whether inbound routes accept mail for a domain (A-labels). */
  hasRoutes(domain: string): Promise<boolean>;
  /** Where this process listens for inbound mail; undefined if it does not. */
  inbound(): { address: string; port: number } | undefined;
}

/** Key of the destination that all mail shares with a relay. */
export const RELAY = 'relay';
/** Key of the relay for destinations that block this host. */
export const FALLBACK = 'fallback';
/** TLS of an MX host, unless its domain requires more. */
const BY_POLICY = { tls: 'opportunistic', verifyCertificate: false } as const;
const MAX_EXCHANGERS = 5;
const MAX_ADDRESSES = 5;
/** MX hosts looked up for an attempt, to detect this service among them: those tried now, and the others of equal preference. */
const MAX_LOOKED_UP = 25;

/** The domain whose hosts receive mail for a recipient: the relay, or the recipient's domain in A-labels. */
export function routedDomainOf(routing: Pick<Routing, 'route'>, recipient: string): string {
  if (routing.route.kind === 'relay') return RELAY;
  return domainOf(recipient);
}

/** Returns the domain of the recipient in A-labels. */
export function domainOf(recipient: string): string {
  const domain = recipient.slice(recipient.lastIndexOf('@') + 1);
  return domainToAscii(domain) ?? domain.toLowerCase();
}

/** Whether a destination is one of the operator's relays. */
export function isRelay(destination: string): boolean {
  return destination === RELAY || destination === FALLBACK;
}

function relayOf({ route, fallback }: Routing, destination: string): RelayRoute | undefined {
  if (destination === FALLBACK) return fallback;
  return route.kind === 'relay' ? route.relay : undefined;
}

export interface Turn {
  /** Whether a host is tried last. */
  isBackedOff(host: string): boolean;
  /** Number of earlier attempts. */
  attempts: number;
  /** Sequence number of the email, whose attempts share an order of many MX hosts. */
  emailSeq: number;
}

/** Looks up the hosts for a destination. Never throws because of the DNS. */
export function resolveRoute(routing: Routing, destination: string, turn: Turn): Promise<Resolved> {
  const relay = relayOf(routing, destination);
  if (relay) return resolveRelay(routing, relay);
  return resolveExchangers(routing, { domain: destination, turn });
}

/** RFC 5321 §5.1: orders hosts by preference, at random within one preference; those tried last keep this order. */
export function inOrder(exchangers: readonly MxHost[], { isBackedOff, attempts, emailSeq }: Turn): MxHost[] {
  const areMany = exchangers.length > MAX_EXCHANGERS;
  const ranked = exchangers.map((exchanger) => ({
    exchanger,
    lot: areMany ? lotOf(emailSeq, exchanger.host) : Math.random(),
  }));
  ranked.sort((a, b) => a.exchanger.preference - b.exchanger.preference || a.lot - b.lot);
  const all = ranked.map((one) => one.exchanger);
  const from = areMany ? (attempts * MAX_EXCHANGERS) % all.length : 0;
  const inTurn = [...all.slice(from), ...all.slice(0, from)];
  return [...inTurn.filter(({ host }) => !isBackedOff(host)), ...inTurn.filter(({ host }) => isBackedOff(host))];
}

/** Returns a number that is the same for all attempts of an email. */
function lotOf(emailSeq: number, host: string): number {
  return hash('sha256', `${emailSeq} ${host}`, 'buffer').readUInt32BE();
}

/** Returns the hosts to try now, then the others of equal preference. */
function toLookUp(ordered: readonly MxHost[]): MxHost[] {
  const inTurn = ordered.slice(0, MAX_EXCHANGERS);
  const worst = Math.max(...inTurn.map(({ preference }) => preference));
  const others = ordered.slice(MAX_EXCHANGERS).filter(({ preference }) => preference <= worst);
  return [...inTurn, ...others.sort((a, b) => a.preference - b.preference)].slice(0, MAX_LOOKED_UP);
}

/** RFC 5321 §5.1: drops the hosts that are this service, and those that are no better. */
function cutAtOurselves<T extends MxHost>(exchangers: readonly T[], isOurs: (one: T) => boolean): T[] {
  const best = Math.min(...exchangers.filter(isOurs).map((one) => one.preference));
  return exchangers.filter((one) => one.preference < best);
}

function temporary(message: string, options: { cause: string; relay: boolean }): Resolved {
  return { ok: false, evidence: { stage: 'dns', message, ...options } };
}

function permanent(code: number, enhanced: string, text: string): Resolved {
  return { ok: false, evidence: { stage: 'dns', relay: false, local: { code, enhanced, text } } };
}

async function resolveRelay(routing: Routing, relay: RelayRoute): Promise<Resolved> {
  const answer = await routing.dns.lookupHost(relay.host);
  if (answer.status !== 'found') {
    const cause = answer.status === 'temporary' ? answer.cause : 'ENOTFOUND';
    return temporary(`the relay ${relay.host} has no address (${cause})`, { cause, relay: true });
  }
  const addresses = answer.value.slice(0, MAX_ADDRESSES);
  // Certificates do not cover private addresses; a relay on the public network must prove its identity before it gets a password.
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
        verifyCertificate: isPublic && (relay.implicitTls || relay.auth !== undefined),
        ...(relay.auth ? { auth: relay.auth } : {}),
      },
    ],
  };
}

async function resolveExchangers(
  routing: Routing,
  { domain, turn }: { domain: string; turn: Turn },
): Promise<Resolved> {
  const mx = await routing.dns.resolveMx(domain);
  if (mx.status === 'temporary') {
    return temporary(`the MX records of ${domain} cannot be looked up (${mx.cause})`, {
      cause: mx.cause,
      relay: false,
    });
  }
  if (mx.status === 'no-such-domain') return permanent(550, '5.1.2', `the domain ${domain} does not exist`);
  if (mx.status === 'found' && mx.value.nullMx) {
    // RFC 7505 §4.1 asks for 556 5.1.10.
    return permanent(556, '5.1.10', `the domain ${domain} does not accept mail (null MX)`);
  }
  if (mx.status === 'found' && mx.value.hosts.length === 0) {
    return permanent(550, '5.4.4', `the MX records of ${domain} contain no valid host name (an IP address is not one)`);
  }
  // RFC 5321 §5.1: without MX records, the domain itself is the host.
  const listed = mx.status === 'found' ? mx.value.hosts : [{ host: domain, preference: 0 }];
  const others = cutAtOurselves(listed, ({ host }) => host === routing.own.name);
  if (others.length === 0) return resolveOurselves(routing, { domain, listed, turn });
  const ordered = inOrder(others, turn);
  const found = await lookUp(routing, toLookUp(ordered));
  const usable = cutAtOurselves(found, (one) => isOurs(routing, one));
  if (usable.length === 0 && found.length > 0) return resolveOurselves(routing, { domain, listed, turn });
  // Hosts that were dropped as this service also drop all worse ones.
  const isAll = usable.length <= MAX_EXCHANGERS && (found.length === others.length || usable.length < found.length);
  return choose(routing, { domain, found: usable.slice(0, MAX_EXCHANGERS), isAll });
}

/**
 * The best MX host of the domain is this service. If the routes cannot be read, assume that it has some: the inbound port checks the
 * recipients.
 */
async function resolveOurselves(
  routing: Routing,
  { domain, listed, turn }: { domain: string; listed: readonly MxHost[]; turn: Turn },
): Promise<Resolved> {
  const { own } = routing;
  if (!(await own.hasRoutes(domain).catch(() => true))) return loop(routing, domain);
  const inbound = own.inbound();
  if (inbound) {
    const { address, port } = inbound;
    return {
      ok: true,
      candidates: [{ host: own.name, addresses: [address], allAddresses: [address], port, ...BY_POLICY }],
    };
  }
  const ordered = inOrder(listed, turn);
  const found = await lookUp(routing, ordered.slice(0, MAX_EXCHANGERS));
  return choose(routing, { domain, found, isAll: ordered.length <= MAX_EXCHANGERS });
}

/** Adds the requirements of the domain to each host, and drops those to which connections are forbidden now. */
async function underPolicies({ policies }: Routing, domain: string, hosts: readonly Candidate[]): Promise<Resolved> {
  const domainPolicy = await policies?.ofDomain(domain);
  if (!domainPolicy) return { ok: true, candidates: [...hosts] };
  const decided = await Promise.all(
    hosts.map(async (candidate) => ({ candidate, of: await domainPolicy.ofHost(candidate.host, candidate.port) })),
  );
  // Only hosts before the first permitted one.
  for (const { of } of decided) {
    if (of.ok) break;
    of.note?.();
  }
  const candidates = decided.flatMap(({ candidate, of }) =>
    of.ok ? [{ ...candidate, ...(of.policy && { policy: of.policy }) }] : [],
  );
  if (candidates.length > 0) return { ok: true, candidates };
  const [first] = decided.flatMap(({ of }) => (of.ok ? [] : [of]));
  const evidence = { stage: 'tls' as const, cause: POLICY_UNMET, message: first!.reason, relay: false };
  return { ok: false, evidence, tlsPolicy: first!.name };
}

interface FoundExchanger extends MxHost {
  answer: AddressAnswer;
}

function addressesOf({ answer }: FoundExchanger): string[] {
  return answer.status === 'found' ? answer.value : [];
}

/** Compares the name after its CNAMEs, or one of its addresses. */
function isOurs({ own }: Routing, exchanger: FoundExchanger): boolean {
  const { answer } = exchanger;
  if (answer.status === 'found' && answer.canonicalName === own.name) return true;
  return addressesOf(exchanger).some((address) => isInRanges(address, own.addresses));
}

function lookUp({ dns }: Routing, exchangers: readonly MxHost[]): Promise<FoundExchanger[]> {
  return Promise.all(
    exchangers.map(async (exchanger) => ({ ...exchanger, answer: await dns.resolveAddresses(exchanger.host) })),
  );
}

/**
 * Returns the MX hosts with usable addresses, each with the requirements of the domain; `isAll` means that there are no others than those
 * looked up.
 */
async function choose(
  routing: Routing,
  { domain, found, isAll }: { domain: string; found: readonly FoundExchanger[]; isAll: boolean },
): Promise<Resolved> {
  const { mxAllow, mxPort, sources } = routing;
  const candidates: Candidate[] = [];
  const refused: string[] = [];
  let unreached: string | undefined;
  for (const exchanger of found) {
    const { host } = exchanger;
    const permitted: string[] = [];
    for (const address of addressesOf(exchanger)) {
      const reason = addressRefusal(address, mxAllow);
      if (reason !== undefined) refused.push(`${host} [${address}]: ${reason}`);
      else if (sources.reach(address)) permitted.push(address);
      else unreached ??= address;
    }
    if (permitted.length === 0) continue;
    const addresses = interleaveFamilies(permitted).slice(0, MAX_ADDRESSES);
    candidates.push({
      host,
      addresses,
      allAddresses: addresses,
      port: mxPort,
      ...BY_POLICY,
    });
  }
  if (candidates.length > 0) return underPolicies(routing, domain, candidates);
  const unsure = found.flatMap(({ answer }) => (answer.status === 'temporary' ? [answer.cause] : []));
  if (unsure.length > 0) {
    const message = `the addresses of the MX hosts of ${domain} cannot be looked up (${unsure[0]})`;
    return temporary(message, { cause: unsure[0]!, relay: false });
  }
  if (unreached !== undefined) {
    const message = `POSTRIDER_SOURCE_ADDRESSES has no address of the family of ${unreached}, an MX host of ${domain}`;
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
  return permanent(550, '5.4.4', `the domain ${domain} has no MX record and no address`);
}

function loop({ own }: Routing, domain: string): Resolved {
  return permanent(550, '5.4.6', `the MX record of ${domain} points to this service (${own.name}): mail loop`);
}

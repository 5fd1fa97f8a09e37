/**
 * Where a message goes next: the operator's relay, or the mail exchangers of the recipient's domain (RFC 5321 §5.1). Answers
 * candidates in the order in which they are tried, or why there is none, as evidence for outcome.ts.
 *
 * MX delivery connects to public addresses only, whatever the DNS says, except where POSTRIDER_MX_ALLOW permits it. A domain
 * all of whose exchangers point to refused addresses bounces (5.4.4, policy): an MX of 127.0.0.1 is how domains say that they
 * take no mail, and waiting does not change it; the address is not suppressed, since a mistake in the DNS may be corrected.
 * Exchangers of one preference come in random order each time, those that failed lately behind all others. Bounded: 5 exchangers,
 * 5 addresses each, whatever the domain lists; when five have failed, others stand in front of them. The relay was named by the operator, so that its
 * address may be private.
 */
import type { Route } from '../config.ts';
import { domainToAscii } from '../mail/address.ts';
import { addressRefusal, type Cidr } from '../net/address-guard.ts';
import { type Dns, ipv4First, type MxHost } from '../net/dns.ts';
import type { Evidence } from './outcome.ts';

export interface Candidate {
  host: string;
  addresses: string[];
  port: number;
  tls: 'opportunistic' | 'implicit';
  verifyCertificate: boolean;
  auth?: { user: string; pass: string };
}

export type Resolved = { ok: true; candidates: Candidate[] } | { ok: false; evidence: Evidence };

export interface Routing {
  route: Route;
  dns: Dns;
  mxPort: number;
  mxAllow: readonly Cidr[];
}

/** Key of the destination that all mail shares behind a relay. */
export const RELAY = 'relay';
const MAX_EXCHANGERS = 5;
const MAX_ADDRESSES = 5;

/** What limits and connections are counted by: the relay, or the recipient's domain in A-labels. */
export function destinationOf(routing: Pick<Routing, 'route'>, recipient: string): string {
  if (routing.route.kind === 'relay') return RELAY;
  const domain = recipient.slice(recipient.lastIndexOf('@') + 1);
  return domainToAscii(domain) ?? domain.toLowerCase();
}

/** Whether a host is tried after all others. */
export type GoesLast = (host: string) => boolean;

/** Looks up where mail for this destination goes. Never throws because of the DNS. */
export function resolveRoute(routing: Routing, destination: string, goesLast: GoesLast): Promise<Resolved> {
  if (routing.route.kind === 'relay') return resolveRelay(routing);
  return resolveExchangers(routing, { domain: destination, goesLast });
}

/** RFC 5321 §5.1: by preference, at random within one; what goes last keeps that order among itself. */
export function inOrder(exchangers: readonly MxHost[], goesLast: GoesLast): string[] {
  const ranked = exchangers.map(({ host, preference }) => ({
    host,
    last: goesLast(host),
    preference,
    lot: Math.random(),
  }));
  ranked.sort((a, b) => Number(a.last) - Number(b.last) || a.preference - b.preference || a.lot - b.lot);
  return ranked.map(({ host }) => host);
}

function temporary(message: string, options: { cause: string; relay: boolean }): Resolved {
  return { ok: false, evidence: { stage: 'dns', message, ...options } };
}

function permanent(code: number, enhanced: string, text: string): Resolved {
  return { ok: false, evidence: { stage: 'dns', relay: false, local: { code, enhanced, text } } };
}

async function resolveRelay(routing: Routing): Promise<Resolved> {
  if (routing.route.kind !== 'relay') throw new Error('not a relay route');
  const { relay } = routing.route;
  const answer = await routing.dns.lookupHost(relay.host);
  if (answer.status !== 'found') {
    const cause = answer.status === 'temporary' ? answer.cause : 'ENOTFOUND';
    return temporary(`the relay ${relay.host} has no address (${cause})`, { cause, relay: true });
  }
  const addresses = answer.value.slice(0, MAX_ADDRESSES);
  // Nobody certifies private addresses; a relay on the public network must prove who it is before it gets a password.
  const isPublic = addresses.every((address) => addressRefusal(address, []) === undefined);
  return {
    ok: true,
    candidates: [
      {
        host: relay.host,
        addresses,
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
  { domain, goesLast }: { domain: string; goesLast: GoesLast },
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
    return permanent(556, '5.1.10', `the domain ${domain} says that it takes no mail (null MX)`);
  }
  if (mx.status === 'found' && mx.value.hosts.length === 0) {
    return permanent(550, '5.4.4', `the MX records of ${domain} name no host (an address is none)`);
  }
  // RFC 5321 §5.1: without MX records the domain itself is its exchanger.
  const hosts = mx.status === 'found' ? inOrder(mx.value.hosts, goesLast).slice(0, MAX_EXCHANGERS) : [domain];
  const candidates: Candidate[] = [];
  const refused: string[] = [];
  let unsure: string | undefined;
  for (const host of hosts) {
    const answer = await routing.dns.resolveAddresses(host);
    if (answer.status === 'temporary') unsure ??= answer.cause;
    if (answer.status !== 'found') continue;
    const addresses: string[] = [];
    for (const address of ipv4First(answer.value)) {
      const reason = addressRefusal(address, routing.mxAllow);
      if (reason === undefined) addresses.push(address);
      else refused.push(`${host} [${address}]: ${reason}`);
    }
    if (addresses.length === 0) continue;
    candidates.push({
      host,
      addresses: addresses.slice(0, MAX_ADDRESSES),
      port: routing.mxPort,
      tls: 'opportunistic',
      verifyCertificate: false,
    });
  }
  if (candidates.length > 0) return { ok: true, candidates };
  if (unsure) {
    const message = `the mail exchangers of ${domain} cannot be looked up (${unsure})`;
    return temporary(message, { cause: unsure, relay: false });
  }
  if (refused.length > 0) {
    const list = refused.slice(0, 3).join(', ');
    return permanent(554, '5.4.4', `the mail exchangers of ${domain} have addresses that are not public (${list})`);
  }
  return permanent(550, '5.4.4', `the domain ${domain} has no mail exchanger and no address`);
}

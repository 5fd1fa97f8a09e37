/**
 * Evaluates the SPF record of a sender domain (RFC 7208): whether it allows the sending host and, if not, which record would. Mechanisms
 * are followed as receivers follow them (a, mx, ip4, ip6, include, redirect, all), with the limit of ten lookups. Terms that depend on a
 * message (macros, exists, ptr) and failed lookups are unknown. A domain can have only one SPF record, so advice extends the existing one.
 */
import { BlockList, isIP } from 'node:net';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { quotingWords, withoutQuoting } from './key-record.ts';

export interface SpfFinding {
  status: 'verified' | 'missing' | 'different' | 'unknown';
  /** The record to publish. */
  value: string;
  /** The published SPF records; null if the lookup failed. */
  found: string[] | null;
  note: string | null;
}

/** RFC 7208 §4.6.4. */
const MAX_LOOKUPS = 10;
/** Limit on the hosts of one `mx` (RFC 7208 §4.6.4). */
const MAX_MX_HOSTS = 10;
/** RFC 7208 §4.6.4 requires a limit of at least 20 s: the owner of the record decides how many unresponsive names it includes. */
const MAX_MS = 20_000;

const isSpf = (text: string): boolean => /^v=spf1(?: |$)/i.test(text);

/** Returns whether the host can be looked up publicly: it has a dot and is not an address. */
function isPublicName(host: string): boolean {
  return host.includes('.') && isIP(host) === 0 && !/(^|\.)(localhost|local|internal|lan|localdomain)$/i.test(host);
}

/** Returns the SPF mechanism for the sending host; without a public name, the reader must fill in the address. */
function mechanismFor(sendingHost: string): string {
  return isPublicName(sendingHost) ? `a:${sendingHost}` : 'ip4:<address that mail leaves from>';
}

/** Returns the record to publish if there is none. */
export function suggestedSpf(sendingHost: string): { value: string; note: string | null } {
  const value = `v=spf1 ${mechanismFor(sendingHost)} ~all`;
  if (isPublicName(sendingHost)) return { value, note: null };
  const note = `The host name ${sendingHost} has no public DNS entry. Put the sending IP address into the record, or set POSTRIDER_SMTP_HOSTNAME to a public name.`;
  return { value, note };
}

/** Returns the existing record with the sending host inserted before the mechanism for all others. */
function extended(record: string, sendingHost: string): string {
  const terms = record.split(/\s+/).filter((term) => term !== '');
  const end = terms.findIndex((term) => /^[+?~-]?all$|^redirect=/i.test(term));
  terms.splice(end === -1 ? terms.length : end, 0, mechanismFor(sendingHost));
  return terms.join(' ');
}

/** Syntax of a term (§4.6.1, §5, §6): mechanisms and modifiers, known or not. */
const TERM =
  /^(?:[+?~-]?(?:all|ptr(?::\S+)?|(?:a|mx)(?::[^/\s]+)?(?:\/\d+)?(?:\/\/\d+)?|(?:include|exists):\S+|ip4:[\d.]+(?:\/\d+)?|ip6:[\da-f:.]+(?:\/\d+)?)|[a-z][\w.-]*=\S*)$/i;

function termsOf(record: string): string[] {
  return record.split(/\s+/).filter((term, index) => index > 0 && term !== '');
}

function withoutTerm(record: string, removed: string): string {
  return record
    .split(/\s+/)
    .filter((term) => term !== removed)
    .join(' ');
}

type SpfResult = 'pass' | 'no' | 'unknown' | 'too-many';

interface Asking {
  dns: Dns;
  /** A name that matches without a lookup; undefined if addresses were given, which may not belong to it. */
  ownName: string | undefined;
  /** Addresses of the host; empty if it cannot be looked up. */
  addresses: readonly string[];
  lookups: { left: number };
  /** Monotonic ms after which no more lookups are made. */
  untilMs: number;
}

const isOver = ({ untilMs }: Asking): boolean => performance.now() >= untilMs;

function covers(network: string, addresses: readonly string[]): boolean {
  const [base = '', length] = network.split('/');
  const family = isIP(base);
  if (family === 0) return false;
  const prefix = length === undefined ? (family === 4 ? 32 : 128) : Number(length);
  if (!Number.isInteger(prefix) || prefix < 0 || prefix > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  list.addSubnet(base, prefix, family === 4 ? 'ipv4' : 'ipv6');
  return addresses.some((address) => list.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6'));
}

async function hostMatches(name: string, asking: Asking): Promise<SpfResult> {
  if (name.toLowerCase() === asking.ownName?.toLowerCase()) return 'pass';
  if (asking.addresses.length === 0 || isOver(asking)) return 'unknown';
  const answer = await asking.dns.resolveAddresses(name);
  if (answer.status === 'temporary') return 'unknown';
  return answer.status === 'found' && answer.value.some((one) => covers(one, asking.addresses)) ? 'pass' : 'no';
}

async function mxHostsMatch(name: string, asking: Asking): Promise<SpfResult> {
  const answer = await asking.dns.resolveMx(name);
  if (answer.status === 'temporary') return 'unknown';
  if (answer.status !== 'found') return 'no';
  const { hosts } = answer.value;
  if (hosts.length > MAX_MX_HOSTS) return 'too-many';
  let result: SpfResult = 'no';
  for (const { host } of hosts) {
    const one = await hostMatches(host, asking);
    if (one === 'pass') return 'pass';
    if (one === 'unknown') result = 'unknown';
  }
  return result;
}

async function mechanismMatches(term: string, domain: string, asking: Asking): Promise<SpfResult> {
  const [, name = '', argument = ''] = /^([a-z0-9]+)(?:[:=]?(.*))$/i.exec(term) ?? [];
  const kind = name.toLowerCase();
  if (kind === 'all') return 'pass';
  if (kind === 'ip4' || kind === 'ip6') {
    if (asking.addresses.length === 0) return 'unknown';
    return covers(argument, asking.addresses) ? 'pass' : 'no';
  }
  if (argument.includes('%') || kind === 'exists' || kind === 'ptr') return 'unknown';
  if (!['a', 'mx', 'include', 'redirect'].includes(kind)) return 'no';
  asking.lookups.left -= 1;
  if (asking.lookups.left < 0) return 'too-many';
  if (isOver(asking)) return 'unknown';
  const target = argument.replace(/\/.*$/, '') || domain;
  if (kind === 'include' || kind === 'redirect') return followed(argument, asking);
  // A network around the addresses of a name is too rare to be worked out.
  if (argument.includes('/')) return 'unknown';
  return kind === 'a' ? hostMatches(target, asking) : mxHostsMatch(target, asking);
}

async function followed(domain: string, asking: Asking): Promise<SpfResult> {
  const answer = await asking.dns.resolveTxt(domain);
  if (answer.status === 'temporary') return 'unknown';
  const record = answer.status === 'found' ? answer.value.find(isSpf) : undefined;
  return record === undefined ? 'no' : evaluate(record, domain, asking);
}

/** The first matching mechanism decides; `unknown` if an earlier one could not be evaluated and no later one passes. */
async function evaluate(record: string, domain: string, asking: Asking): Promise<SpfResult> {
  let isUnsure = false;
  // A redirect applies only if no mechanism matches (§6.1).
  const terms = record
    .split(/\s+/)
    .slice(1)
    .filter((term) => term !== '' && !/^exp=/i.test(term));
  const ordered = [
    ...terms.filter((term) => !/^redirect=/i.test(term)),
    ...terms.filter((term) => /^redirect=/i.test(term)),
  ];
  for (const term of ordered) {
    const [, qualifier = '+', mechanism = ''] = /^([+?~-]?)(.*)$/.exec(term) ?? [];
    const result = await mechanismMatches(mechanism, domain, asking);
    if (result === 'too-many') return 'too-many';
    if (result === 'unknown') isUnsure = true;
    if (result !== 'pass') continue;
    if (qualifier === '' || qualifier === '+') return 'pass';
    return isUnsure ? 'unknown' : 'no';
  }
  return isUnsure ? 'unknown' : 'no';
}

export interface SpfOptions {
  /** Resolver for the names in the record. */
  dns: Dns;
  sendingHost: string;
  /** Source addresses; those of the host by default. */
  addresses?: readonly string[];
}

async function addressesOf(host: string, dns: Dns): Promise<readonly string[]> {
  const own = isPublicName(host) ? await dns.resolveAddresses(host) : undefined;
  return own?.status === 'found' ? own.value : [];
}

/** Evaluates the SPF record of this domain for mail from the sending host; `answer`: its TXT records if they are already known. */
export async function lookUpSpf(
  domain: string,
  options: SpfOptions & { answer?: DnsAnswer<string[]> },
): Promise<SpfFinding> {
  const { dns, sendingHost } = options;
  const suggested = suggestedSpf(sendingHost);
  const answer = options.answer ?? (await dns.resolveTxt(domain));
  if (answer.status === 'temporary') return { status: 'unknown', ...suggested, found: null, note: notAnswered(domain) };
  const texts = answer.status === 'found' ? answer.value : [];
  const records = texts.filter(isSpf);
  const [record, ...others] = records;
  if (record === undefined) return withoutRecord(domain, texts, suggested);
  const value = extended(record, sendingHost);
  const different = (note: string): SpfFinding => ({ status: 'different', value, found: records, note });
  if (others.length > 0) {
    return different(
      `There are ${records.length} SPF records (v=spf1) at ${domain}, which is an error for receivers (RFC 7208 §4.5). Merge them into one.`,
    );
  }
  const strange = termsOf(record).find((term) => !TERM.test(term));
  if (strange !== undefined) {
    const note = `The SPF record at ${domain} has the term ${strange}, which is an error for receivers (RFC 7208 §4.6). Correct or remove it.`;
    return { ...different(note), value: extended(withoutTerm(record, strange), sendingHost) };
  }
  const addresses = options.addresses ?? (await addressesOf(sendingHost, dns));
  const ownName = options.addresses ? undefined : sendingHost;
  const untilMs = performance.now() + MAX_MS;
  const asking = { dns, ownName, addresses, lookups: { left: MAX_LOOKUPS }, untilMs };
  const result = await evaluate(record, domain, asking);
  if (result === 'pass') return { status: 'verified', value: record, found: records, note: null };
  if (result === 'too-many') {
    return different(
      `The SPF record at ${domain} needs more than ${MAX_LOOKUPS} DNS lookups, which is an error for receivers (RFC 7208 §4.6.4). Shorten it.`,
    );
  }
  const addition = `add ${mechanismFor(sendingHost)} to the existing record, as in this value. A domain can have only one SPF record.`;
  if (result === 'unknown') {
    const note = `Postrider cannot tell whether the SPF record at ${domain} includes ${sendingHost}. If it does not, ${addition}`;
    return { status: 'unknown', value, found: records, note };
  }
  return different(`The SPF record at ${domain} does not include ${sendingHost}: ${addition}`);
}

/** Handles a domain without an SPF record, which may have one that a form has corrupted. */
function withoutRecord(domain: string, texts: string[], suggested: { value: string; note: string | null }): SpfFinding {
  const spoilt = texts.filter((text) => isSpf(withoutQuoting(text)));
  if (spoilt[0] === undefined) return { status: 'missing', ...suggested, found: [] };
  const note = `The SPF record at ${domain} ${quotingWords(spoilt[0])}`;
  return { status: 'different', value: suggested.value, found: spoilt, note };
}

function notAnswered(name: string): string {
  return `The DNS lookup of ${name} failed. Try again in a few minutes.`;
}

/**
 * SPF of a sender domain (RFC 7208): whether the record that is published lets our host send, and if not, which record would.
 * Mechanisms are followed as receivers follow them (a, mx, ip4, ip6, include, redirect, all), with their limit of ten look-ups;
 * what depends on the single mail (macros, exists, ptr) cannot be known here, nor what the DNS does not answer. A domain has
 * one SPF record: advice extends the one that is there.
 */
import { BlockList, isIP } from 'node:net';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { quotingWords, withoutQuoting } from './key-record.ts';

export interface SpfFinding {
  status: 'verified' | 'missing' | 'different' | 'unknown';
  /** The record to publish. */
  value: string;
  /** The records of SPF that are published; null where the DNS did not answer. */
  found: string[] | null;
  note: string | null;
}

/** RFC 7208 §4.6.4. */
const MAX_LOOKUPS = 10;
/** The same: hosts of one `mx`. */
const MAX_MX_HOSTS = 10;
/** The same asks for 20 s at least: the owner of the record chooses how many names nobody answers for. */
const MAX_MS = 20_000;

const isSpf = (text: string): boolean => /^v=spf1(?: |$)/i.test(text);

/** Whether others can look the host up: it has a dot, and is no address. */
function isPublicName(host: string): boolean {
  return host.includes('.') && isIP(host) === 0 && !/(^|\.)(localhost|local|internal|lan|localdomain)$/i.test(host);
}

/** How SPF names our host; where it has no public name the address is for the reader to fill in. */
function mechanismFor(sendingHost: string): string {
  return isPublicName(sendingHost) ? `a:${sendingHost}` : 'ip4:<address that mail leaves from>';
}

/** What to publish where nothing is. */
export function suggestedSpf(sendingHost: string): { value: string; note: string | null } {
  const value = `v=spf1 ${mechanismFor(sendingHost)} ~all`;
  if (isPublicName(sendingHost)) return { value, note: null };
  const note = `The host name ${sendingHost} has no public DNS entry. Put the sending IP address into the record, or set POSTRIDER_SMTP_HOSTNAME to a public name.`;
  return { value, note };
}

/** The record that is there, with our host in front of what it says of all others. */
function extended(record: string, sendingHost: string): string {
  const terms = record.split(/\s+/).filter((term) => term !== '');
  const end = terms.findIndex((term) => /^[+?~-]?all$|^redirect=/i.test(term));
  terms.splice(end === -1 ? terms.length : end, 0, mechanismFor(sendingHost));
  return terms.join(' ');
}

/** What a term may look like (§4.6.1, §5, §6): mechanisms and modifiers, known or not. */
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
  /** A name that matches unasked; undefined where addresses were named, which it may not have. */
  ownName: string | undefined;
  /** Addresses of the host; none when it has none that can be looked up. */
  addresses: readonly string[];
  lookups: { left: number };
  /** Monotonic ms after which nothing more is asked. */
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

async function exchangersMatch(name: string, asking: Asking): Promise<SpfResult> {
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
  return kind === 'a' ? hostMatches(target, asking) : exchangersMatch(target, asking);
}

async function followed(domain: string, asking: Asking): Promise<SpfResult> {
  const answer = await asking.dns.resolveTxt(domain);
  if (answer.status === 'temporary') return 'unknown';
  const record = answer.status === 'found' ? answer.value.find(isSpf) : undefined;
  return record === undefined ? 'no' : evaluate(record, domain, asking);
}

/** The first mechanism that matches decides; `unknown` when one before could not be evaluated and none after it passes. */
async function evaluate(record: string, domain: string, asking: Asking): Promise<SpfResult> {
  let isUnsure = false;
  // A redirect counts only where nothing matched (§6.1).
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
  /** Follows what the record names. */
  dns: Dns;
  sendingHost: string;
  /** Addresses that mail leaves from; those of the host by default. */
  addresses?: readonly string[];
}

async function addressesOf(host: string, dns: Dns): Promise<readonly string[]> {
  const own = isPublicName(host) ? await dns.resolveAddresses(host) : undefined;
  return own?.status === 'found' ? own.value : [];
}

/** What the SPF record of this domain means for mail from our host; `answer`: its TXT records where they are known already. */
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

/** Nothing that begins as a record does: perhaps one that a form has spoilt. */
function withoutRecord(domain: string, texts: string[], suggested: { value: string; note: string | null }): SpfFinding {
  const spoilt = texts.filter((text) => isSpf(withoutQuoting(text)));
  if (spoilt[0] === undefined) return { status: 'missing', ...suggested, found: [] };
  const note = `The SPF record at ${domain} ${quotingWords(spoilt[0])}`;
  return { status: 'different', value: suggested.value, found: spoilt, note };
}

function notAnswered(name: string): string {
  return `The DNS did not answer for ${name}; try again in a few minutes.`;
}

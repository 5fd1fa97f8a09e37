/**
 * The DNS records of a sender domain: what to publish, and what the DNS says of it. Only the RSA key's record decides whether
 * the domain is verified: who can publish it controls the zone, and every receiver understands it. A mail is signed with
 * Ed25519 too once that key's record was found. SPF and DMARC are looked at and reported, since mail goes out better with them.
 *
 * SPF of a sender domain (RFC 7208): whether the record that is published lets our host send, and if not, which record would.
 * Mechanisms are followed as receivers follow them (a, mx, ip4, ip6, include, redirect, all), with their limit of ten look-ups;
 * what depends on the single mail (macros, exists, ptr) cannot be known here, nor what the DNS does not answer. A domain has
 * one SPF record: advice extends the one that is there.
 */
import { BlockList, isIP } from 'node:net';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type DomainKey, isVouched, type SenderDomain } from './store.ts';

interface SpfFinding {
  status: 'verified' | 'missing' | 'different' | 'unknown';
  /** The record to publish. */
  value: string;
  note: string | null;
}

/** RFC 7208 §4.6.4. */
const MAX_LOOKUPS = 10;

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
  const note = `This host calls itself ${sendingHost}, which others cannot look up: put the address that mail leaves from into the record, or set POSTRIDER_SMTP_HOSTNAME to a public name.`;
  return { value, note };
}

/** The record that is there, with our host in front of what it says of all others. */
function extended(record: string, sendingHost: string): string {
  const terms = record.split(/\s+/).filter((term) => term !== '');
  const end = terms.findIndex((term) => /^[+?~-]?all$|^redirect=/i.test(term));
  terms.splice(end === -1 ? terms.length : end, 0, mechanismFor(sendingHost));
  return terms.join(' ');
}

type SpfResult = 'pass' | 'no' | 'unknown' | 'too-many';

interface Asking {
  dns: Dns;
  sendingHost: string;
  /** Addresses of the host; none when it has none that can be looked up. */
  addresses: string[];
  lookups: { left: number };
}

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
  if (name.toLowerCase() === asking.sendingHost.toLowerCase()) return 'pass';
  if (asking.addresses.length === 0) return 'unknown';
  const answer = await asking.dns.resolveAddresses(name);
  if (answer.status === 'temporary') return 'unknown';
  return answer.status === 'found' && answer.value.some((one) => asking.addresses.includes(one)) ? 'pass' : 'no';
}

async function exchangersMatch(name: string, asking: Asking): Promise<SpfResult> {
  const answer = await asking.dns.resolveMx(name);
  if (answer.status === 'temporary') return 'unknown';
  if (answer.status !== 'found') return 'no';
  let result: SpfResult = 'no';
  for (const { host } of answer.value.hosts) {
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

/** What the SPF record of this domain means for mail from our host. */
export async function lookUpSpf(domain: string, options: { dns: Dns; sendingHost: string }): Promise<SpfFinding> {
  const { dns, sendingHost } = options;
  const suggested = suggestedSpf(sendingHost);
  const answer = await dns.resolveTxt(domain);
  if (answer.status === 'temporary') return { status: 'unknown', ...suggested, note: notAnswered(domain) };
  const records = answer.status === 'found' ? answer.value.filter(isSpf) : [];
  const [record, ...others] = records;
  if (record === undefined) return { status: 'missing', ...suggested };
  if (others.length > 0) {
    const note = `There are ${records.length} SPF records (v=spf1) at ${domain}, which receivers take for an error (RFC 7208 §4.5): merge them into one.`;
    return { status: 'different', value: extended(record, sendingHost), note };
  }
  const own = isPublicName(sendingHost) ? await dns.resolveAddresses(sendingHost) : undefined;
  const addresses = own?.status === 'found' ? own.value : [];
  const asking = { dns, sendingHost, addresses, lookups: { left: MAX_LOOKUPS } };
  const result = await evaluate(record, domain, asking);
  if (result === 'pass') return { status: 'verified', value: record, note: null };
  const value = extended(record, sendingHost);
  if (result === 'too-many') {
    const note = `The SPF record at ${domain} needs more than ${MAX_LOOKUPS} look-ups, which receivers take for an error (RFC 7208 §4.6.4): shorten it.`;
    return { status: 'different', value, note };
  }
  if (result === 'unknown') {
    const note = `Whether the SPF record at ${domain} lets ${sendingHost} send cannot be known from here; if it does not, extend it to this value.`;
    return { status: 'unknown', value, note };
  }
  const note = `The SPF record at ${domain} does not name ${sendingHost}: replace it by this value, which is the same record extended. There may be only one.`;
  return { status: 'different', value, note };
}

function notAnswered(name: string): string {
  return `The DNS did not answer for ${name}; try again in a few minutes.`;
}

/** `pending`: not looked up for this answer. `unknown`: the DNS did not answer, or it cannot be known from here. */
type RecordStatus = 'verified' | 'missing' | 'different' | 'unknown' | 'pending';

export interface DnsRecord {
  purpose: 'dkim' | 'spf' | 'dmarc';
  type: 'TXT';
  name: string;
  value: string;
  status: RecordStatus;
  required: boolean;
  /** One sentence on how it is and what to do; null where the status says it all. */
  note: string | null;
}

/** Tags of a DKIM key record (RFC 6376 §3.6.1), white space removed. */
function tags(text: string): Map<string, string> {
  const map = new Map<string, string>();
  for (const part of text.split(';')) {
    const equals = part.indexOf('=');
    if (equals > 0) map.set(part.slice(0, equals).trim(), part.slice(equals + 1).replace(/\s+/g, ''));
  }
  return map;
}

function sameKey(published: string, ours: string): boolean {
  const found = tags(published);
  const wanted = tags(ours);
  if ((found.get('v') ?? 'DKIM1') !== 'DKIM1') return false;
  return (found.get('k') ?? 'rsa') === wanted.get('k') && found.get('p') === wanted.get('p');
}

function keyRecord(domain: SenderDomain, key: DomainKey): DnsRecord {
  const name = `${key.selector}._domainkey.${domain.domain}`;
  const required = key.algorithm === 'rsa';
  return { purpose: 'dkim', type: 'TXT', name, value: key.publicKey, status: 'pending', required, note: null };
}

function dmarcRecord(domain: SenderDomain): DnsRecord {
  const shape = { purpose: 'dmarc', type: 'TXT', status: 'pending', required: false, note: null } as const;
  return { ...shape, name: `_dmarc.${domain.domain}`, value: 'v=DMARC1; p=none' };
}

const VOUCHED =
  'An operator vouched for this domain; its DNS was not looked at. Publish this record all the same, and verify the domain.';

/** What the last check found of a key, without asking the DNS. */
function knownKey(domain: SenderDomain, key: DomainKey): DnsRecord {
  const record = keyRecord(domain, key);
  if (key.publishedAt !== null) return { ...record, status: 'verified' };
  if (record.required && isVouched(domain)) return { ...record, note: VOUCHED };
  return domain.checkedAt === null || domain.status === 'pending' ? record : { ...record, status: 'missing' };
}

/** The records without asking the DNS: those of the keys show what the last check found. */
export function knownRecords(domain: SenderDomain, sendingHost: string): DnsRecord[] {
  const spf = { ...dmarcRecord(domain), purpose: 'spf' as const, name: domain.domain, ...suggestedSpf(sendingHost) };
  return [...domain.keys.map((key) => knownKey(domain, key)), spf, dmarcRecord(domain)];
}

/** How one key's record stands. */
function foundKey(record: DnsRecord, answer: DnsAnswer<string[]>): DnsRecord {
  const { name } = record;
  if (answer.status === 'temporary') {
    return { ...record, status: 'unknown', note: `The DNS did not answer for ${name}; try again in a few minutes.` };
  }
  const published = answer.status === 'found' ? answer.value.filter((text) => tags(text).has('p')) : [];
  if (published.length > 1) {
    const note = `There are ${published.length} keys at ${name}, of which receivers may take any (RFC 6376 §3.6.2.2): leave only the value in dns-records.`;
    return { ...record, status: 'different', note };
  }
  if (published[0] === undefined) {
    const note = `There is no TXT record at ${name} yet; publish the value in dns-records. A new record can take up to an hour to be seen.`;
    return { ...record, status: 'missing', note };
  }
  if (sameKey(published[0], record.value)) return { ...record, status: 'verified' };
  const note = `The TXT record at ${name} has another key; replace it by the value in dns-records, and take care that it is not cut off.`;
  return { ...record, status: 'different', note };
}

function foundDmarc(record: DnsRecord, answer: DnsAnswer<string[]>): DnsRecord {
  if (answer.status === 'temporary') return { ...record, status: 'unknown' };
  const isThere = answer.status === 'found' && answer.value.some((text) => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text));
  return { ...record, status: isThere ? 'verified' : 'missing' };
}

/** The records as the DNS has them right now, all asked at once; those of the keys first, in the order of the keys. */
export async function lookUpRecords(
  domain: SenderDomain,
  options: { dns: Dns; sendingHost: string },
): Promise<DnsRecord[]> {
  const ask = (name: string): Promise<DnsAnswer<string[]>> => options.dns.resolveTxt(name);
  const keys = domain.keys.map(async (key) => {
    const record = keyRecord(domain, key);
    return foundKey(record, await ask(record.name));
  });
  const dmarc = dmarcRecord(domain);
  const [spf, dmarcAnswer, ...found] = await Promise.all([lookUpSpf(domain.domain, options), ask(dmarc.name), ...keys]);
  return [...found, { ...dmarc, purpose: 'spf', name: domain.domain, ...spf }, foundDmarc(dmarc, dmarcAnswer)];
}

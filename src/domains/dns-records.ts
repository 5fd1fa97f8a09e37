/**
 * The DNS records of a sender domain: what to publish, and what the DNS says of it. Only the RSA key's record decides
 * whether the domain is verified: who can publish it controls the zone, and every receiver understands it. A mail is signed
 * with Ed25519 too once that key's record was found. SPF and DMARC are looked at and reported, since mail goes out better with them.
 */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type DomainKey, isVouched, type SenderDomain } from './domain.ts';
import { lookUpSpf, suggestedSpf } from './spf.ts';

/** `pending`: not looked up for this answer. `unknown`: the DNS did not answer, or it cannot be known from here. */
export type RecordStatus = 'verified' | 'missing' | 'different' | 'unknown' | 'pending';

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

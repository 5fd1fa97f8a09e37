/**
 * The DNS records of a sender domain: what to publish, and what the DNS says of it. Only the RSA key's record decides
 * whether the domain is verified: whoever can publish it controls the zone, and every receiver understands it. Ed25519, SPF
 * and DMARC are looked at and reported, since mail goes out better with them.
 */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import type { DomainStatus, SenderDomain } from './domain.ts';

/** `pending`: not looked up for this answer. `unknown`: the DNS did not answer; ask again later. */
export type RecordStatus = 'verified' | 'missing' | 'different' | 'unknown' | 'pending';

export interface DnsRecord {
  purpose: 'dkim' | 'spf' | 'dmarc';
  type: 'TXT';
  name: string;
  value: string;
  status: RecordStatus;
  required: boolean;
}

interface Expected extends DnsRecord {
  /** Whether one published text does what this record should; undefined when it is about something else. */
  judge(text: string): boolean | undefined;
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

/** What is to be published; `sendingHost` is the host that mail leaves from, as SPF names it. */
function expectedRecords(domain: SenderDomain, sendingHost: string): Expected[] {
  const record = { type: 'TXT', status: 'pending' } as const;
  const dkim = domain.keys.map(
    (key): Expected => ({
      ...record,
      purpose: 'dkim',
      name: `${key.selector}._domainkey.${domain.domain}`,
      value: key.publicKey,
      required: key.algorithm === 'rsa',
      judge: (text) => sameKey(text, key.publicKey),
    }),
  );
  const spf: Expected = {
    ...record,
    purpose: 'spf',
    name: domain.domain,
    value: `v=spf1 a:${sendingHost} ~all`,
    required: false,
    judge: (text) =>
      /^v=spf1(?: |$)/i.test(text) ? text.toLowerCase().split(/\s+/).includes(`a:${sendingHost}`) : undefined,
  };
  const dmarc: Expected = {
    ...record,
    purpose: 'dmarc',
    name: `_dmarc.${domain.domain}`,
    value: 'v=DMARC1; p=none',
    required: false,
    judge: (text) => (/^v\s*=\s*DMARC1\s*(?:;|$)/.test(text) ? true : undefined),
  };
  return [...dkim, spf, dmarc];
}

function statusOf(answer: DnsAnswer<string[]>, judge: Expected['judge']): RecordStatus {
  if (answer.status === 'temporary') return 'unknown';
  if (answer.status !== 'found') return 'missing';
  const verdicts = answer.value.map(judge);
  if (verdicts.includes(true)) return 'verified';
  return verdicts.includes(false) ? 'different' : 'missing';
}

const DECIDED: Record<DomainStatus, RecordStatus> = { verified: 'verified', pending: 'pending', failing: 'missing' };

/** The records without asking the DNS: the one that decides shows what the last check found. */
export function knownRecords(domain: SenderDomain, sendingHost: string): DnsRecord[] {
  return expectedRecords(domain, sendingHost).map(({ judge: _, ...record }) => ({
    ...record,
    status: record.required ? DECIDED[domain.status] : record.status,
  }));
}

/** The records as the DNS has them right now, all asked at once. */
export async function lookUpRecords(
  domain: SenderDomain,
  options: { dns: Dns; sendingHost: string },
): Promise<DnsRecord[]> {
  return Promise.all(
    expectedRecords(domain, options.sendingHost).map(async ({ judge, ...record }) => ({
      ...record,
      status: statusOf(await options.dns.resolveTxt(record.name), judge),
    })),
  );
}

/**
 * Explains DMARC records (RFC 9989) to the owner of a domain: whether receivers apply the record, which policy it requests, and which record
 * applies to a domain without one. Results are not cached.
 */
import {
  applicableRecord,
  appliedPolicy,
  type DmarcPolicy,
  type DmarcRecord,
  isDmarcRecord,
  organizationalDomain,
  parseDmarcRecord,
  walkTree,
} from '../mail-authentication/dmarc-record.ts';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type Finding, quotingWords, withoutQuoting } from './key-record.ts';

/** Tags of RFC 7489 that RFC 9989 removed (appendix C). */
const REMOVED = ['pct', 'rf', 'ri'];
const KNOWN_POLICIES = 'must be none, quarantine or reject';

interface Explained {
  /** The problem, as the end of a sentence that starts with the record. */
  fault: string | undefined;
  /** Information about a record that works. */
  hint: string | undefined;
}

function explain(text: string): Explained {
  const { tags, duplicate, invalidPolicy, record } = parseDmarcRecord(text);
  const faulty = (fault: string): Explained => ({ fault, hint: undefined });
  if (!record) return faulty(`has the tag ${duplicate} twice, so receivers ignore the record. Keep only one.`);
  if (record.isIgnored && invalidPolicy === undefined) {
    return faulty(
      `has no policy that receivers know: p ${KNOWN_POLICIES}. Without p it needs rua with an address for reports.`,
    );
  }
  if (invalidPolicy !== undefined) {
    const effect = record.isIgnored ? 'they ignore it' : 'they act as for p=none';
    return faulty(`has no policy that receivers know, so ${effect}: ${invalidPolicy} ${KNOWN_POLICIES}.`);
  }
  return { fault: undefined, hint: hintOf(record, tags) };
}

function hintOf({ policy, psd }: DmarcRecord, tags: ReadonlyMap<string, string>): string | undefined {
  if (!tags.has('p')) return 'has no p tag; receivers treat it as p=none.';
  if (psd === 'y') return 'has psd=y, which declares this domain a public suffix. Remove psd unless it is one.';
  const percent = Number(tags.get('pct') ?? '100');
  if (percent < 100 && policy !== 'none')
    return `has pct=${percent}, which receivers ignore (RFC 9989); they apply p=${policy} to all email. To test a policy, publish t=y.`;
  const removed = REMOVED.filter((name) => tags.has(name));
  if (removed.length === 0) return undefined;
  const names = removed.join(' and ');
  return `has ${names}, which receivers ignore (RFC 9989). Remove ${removed.length === 1 ? 'it' : 'them'}.`;
}

/** Returns the record at `_dmarc.<domain>` according to this DNS response. */
export function findDmarc(domain: string, answer: DnsAnswer<string[]>): Finding {
  const name = `_dmarc.${domain}`;
  if (answer.status === 'temporary')
    return { status: 'unknown', found: null, note: `The DNS lookup of ${name} failed. Try again in a few minutes.` };
  const texts = answer.status === 'found' ? answer.value : [];
  const records = texts.filter(isDmarcRecord);
  const [text] = records;
  const different = (found: string[], note: string): Finding => ({ status: 'different', found, note });
  if (records.length > 1) {
    return different(
      records,
      `There are ${records.length} DMARC records at ${name}, and receivers ignore all of them (RFC 9989 §4.10). Keep only one.`,
    );
  }
  if (text === undefined) {
    const spoilt = texts.find((one) => isDmarcRecord(withoutQuoting(one)));
    if (spoilt !== undefined) return different([spoilt], `The DMARC record at ${name} ${quotingWords(spoilt)}`);
    return { status: 'missing', found: texts, note: null };
  }
  if (text.includes('\\')) return different(records, `The DMARC record at ${name} ${quotingWords(text)}`);
  const { fault, hint } = explain(text);
  if (fault !== undefined) return different(records, `The DMARC record at ${name} ${fault}`);
  return {
    status: 'verified',
    found: records,
    note: hint === undefined ? null : `The DMARC record at ${name} ${hint}`,
  };
}

/** The record that applies to mail from a domain. */
export interface AppliedDmarc {
  /** Where it is published: the domain itself, its organizational domain, or the public suffix above. */
  publishedAt: string;
  record: DmarcRecord;
  /** The policy that receivers apply to mail from the domain that fails, considering `sp`, `np`, and `t`. */
  policy: DmarcPolicy;
  organizationalDomain: string;
}

/** Performs policy discovery (§4.10.1). Returns undefined if no record applies, `unknown` if a lookup failed. */
export async function appliedDmarc(
  domain: string,
  dns: Pick<Dns, 'resolveTxt'>,
): Promise<AppliedDmarc | undefined | 'unknown'> {
  const { found, failed } = await walkTree(domain, dns.resolveTxt);
  if (failed) return 'unknown';
  const applied = applicableRecord(domain, found);
  if (!applied || applied.record.isIgnored) return undefined;
  const { record } = applied;
  const isOwn = applied.domain === domain;
  const isMissing = !isOwn && (await dns.resolveTxt(domain)).status === 'no-such-domain';
  const policy = isOwn ? record.policy : isMissing ? record.nonexistentPolicy : record.subdomainPolicy;
  return {
    publishedAt: applied.domain,
    record,
    policy: appliedPolicy(record, policy),
    organizationalDomain: organizationalDomain(domain, found),
  };
}

/** Returns the organizational domain of a name; undefined if a lookup failed. */
export async function organizationOf(domain: string, dns: Pick<Dns, 'resolveTxt'>): Promise<string | undefined> {
  const { found, failed } = await walkTree(domain, dns.resolveTxt);
  return failed ? undefined : organizationalDomain(domain, found);
}

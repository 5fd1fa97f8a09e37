/**
 * Evaluates DMARC as receivers do (RFC 9989): whether a domain's record is valid, which policy it requests, and which record applies to a
 * domain without one. The organizational domain is found by the DNS tree walk in §4.10, with at most eight queries, not with a list of
 * public suffixes. Results are not cached.
 */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type Finding, quotingWords, withoutQuoting } from './key-record.ts';

export type DmarcPolicy = 'none' | 'quarantine' | 'reject';

/** A record as receivers act on it. */
export interface DmarcRecord {
  text: string;
  /** For the domain itself; `none` if the record has no valid policy but requests reports (§4.10.1). */
  policy: DmarcPolicy;
  /** For existing and for nonexistent subdomains, with defaults applied. */
  subdomainPolicy: DmarcPolicy;
  nonexistentPolicy: DmarcPolicy;
  /** `t=y`: receivers apply the next weaker policy. */
  isTesting: boolean;
  /** `y`: a public suffix. `n`: an organizational domain. `u`, the default: the walk decides. */
  psd: 'y' | 'n' | 'u';
  isDkimStrict: boolean;
  isSpfStrict: boolean;
}

const VERSION = /^[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)/;
const POLICY = /^(?:none|quarantine|reject)$/;
/** A reporting URI (§4.8): a scheme and its value, so not a bare address. RFC 7489 allowed a size after it. */
const REPORT_URI = /^[a-z][a-z0-9+.-]*:[^\s,!]+(?:![0-9]+[kmgt]?)?$/i;
/** Tags of RFC 7489 that RFC 9989 removed (appendix C). */
const REMOVED = ['pct', 'rf', 'ri'];

const isDmarc = (text: string): boolean => VERSION.test(text.trim());

/** Returns the tags by name. A repeated tag makes the list invalid (RFC 6376 §3.2). */
function tagsOf(text: string): { tags: Map<string, string>; twice: string | undefined } {
  const tags = new Map<string, string>();
  let twice: string | undefined;
  for (const part of text.split(';')) {
    const equals = part.indexOf('=');
    const name = part.slice(0, Math.max(0, equals)).trim().toLowerCase();
    if (!/^[a-z]+$/.test(name)) continue;
    if (tags.has(name)) twice ??= name;
    else tags.set(name, part.slice(equals + 1).trim());
  }
  return { tags, twice };
}

interface ReadRecord {
  /** Undefined for a record that receivers ignore. */
  record: DmarcRecord | undefined;
  /** The problem, as the end of a sentence that starts with the record. */
  fault: string | undefined;
  /** Information about a record that works. */
  hint: string | undefined;
}

const KNOWN_POLICIES = 'must be none, quarantine or reject';

function readRecord(text: string): ReadRecord {
  const { tags, twice } = tagsOf(text);
  if (twice !== undefined)
    return {
      record: undefined,
      fault: `has the tag ${twice} twice, so receivers ignore the record. Keep only one.`,
      hint: undefined,
    };
  const value = (name: string): string => (tags.get(name) ?? '').toLowerCase();
  const invalid = ['p', 'sp', 'np'].find((name) => tags.has(name) && !POLICY.test(value(name)));
  const asksForReports = (tags.get('rua') ?? '').split(',').some((uri) => REPORT_URI.test(uri.trim()));
  const isRead = invalid === undefined && tags.has('p');
  if (!isRead && !asksForReports) {
    const fault =
      invalid === undefined
        ? `has no policy that receivers know: p ${KNOWN_POLICIES}. Without p it needs rua with an address for reports.`
        : `has no policy that receivers know, so they ignore it: ${invalid} ${KNOWN_POLICIES}.`;
    return { record: undefined, fault, hint: undefined };
  }
  const policyOf = (name: string, otherwise: DmarcPolicy): DmarcPolicy =>
    isRead && tags.has(name) ? (value(name) as DmarcPolicy) : otherwise;
  const policy = policyOf('p', 'none');
  const subdomainPolicy = policyOf('sp', policy);
  const psd = value('psd');
  const record: DmarcRecord = {
    text,
    policy,
    subdomainPolicy,
    nonexistentPolicy: policyOf('np', subdomainPolicy),
    isTesting: value('t') === 'y',
    psd: psd === 'y' || psd === 'n' ? psd : 'u',
    isDkimStrict: value('adkim') === 's',
    isSpfStrict: value('aspf') === 's',
  };
  const fault =
    invalid === undefined
      ? undefined
      : `has no policy that receivers know, so they act as for p=none: ${invalid} ${KNOWN_POLICIES}.`;
  return { record, fault, hint: hintOf(record, tags) };
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

/** Returns the single record of a name; several records count as none (§4.10). */
function recordAt(answer: DnsAnswer<string[]>): DmarcRecord | undefined {
  const [text, ...others] = (answer.status === 'found' ? answer.value : []).filter(isDmarc);
  return text === undefined || others.length > 0 ? undefined : readRecord(text).record;
}

/** Returns the record at `_dmarc.<domain>` according to this DNS response. */
export function findDmarc(domain: string, answer: DnsAnswer<string[]>): Finding {
  const name = `_dmarc.${domain}`;
  if (answer.status === 'temporary')
    return { status: 'unknown', found: null, note: `The DNS lookup of ${name} failed. Try again in a few minutes.` };
  const texts = answer.status === 'found' ? answer.value : [];
  const records = texts.filter(isDmarc);
  const [text] = records;
  const different = (found: string[], note: string): Finding => ({ status: 'different', found, note });
  if (records.length > 1) {
    return different(
      records,
      `There are ${records.length} DMARC records at ${name}, and receivers ignore all of them (RFC 9989 §4.10). Keep only one.`,
    );
  }
  if (text === undefined) {
    const spoilt = texts.find((one) => isDmarc(withoutQuoting(one)));
    if (spoilt !== undefined) return different([spoilt], `The DMARC record at ${name} ${quotingWords(spoilt)}`);
    return { status: 'missing', found: texts, note: null };
  }
  if (text.includes('\\')) return different(records, `The DMARC record at ${name} ${quotingWords(text)}`);
  const { fault, hint } = readRecord(text);
  if (fault !== undefined) return different(records, `The DMARC record at ${name} ${fault}`);
  return {
    status: 'verified',
    found: records,
    note: hint === undefined ? null : `The DMARC record at ${name} ${hint}`,
  };
}

/** A longer name is shortened to this many labels after the first query, which limits the walk to eight queries. */
const WALKED_LABELS = 7;

interface Walked {
  /** Longest name first. */
  found: { domain: string; record: DmarcRecord }[];
  /** Whether a lookup failed, so that there may be more records. */
  isIncomplete: boolean;
}

/** Performs the DNS tree walk (§4.10): the records of a name and its parents, up to the top or to a `psd` tag that ends it. */
async function walk(domain: string, dns: Pick<Dns, 'resolveTxt'>): Promise<Walked> {
  const found: Walked['found'] = [];
  for (let labels = domain.split('.'); labels.length > 0; ) {
    const name = labels.join('.');
    const answer = await dns.resolveTxt(`_dmarc.${name}`);
    if (answer.status === 'temporary') return { found, isIncomplete: true };
    const record = recordAt(answer);
    if (record) found.push({ domain: name, record });
    if (record && record.psd !== 'u') break;
    labels = labels.length > WALKED_LABELS ? labels.slice(-WALKED_LABELS) : labels.slice(1);
  }
  return { found, isIncomplete: false };
}

/** The organizational domain by the records of a walk (§4.10.2). */
function organizationalDomain(domain: string, found: Walked['found']): string {
  const last = found.at(-1);
  if (last === undefined) return domain;
  const isSuffixAbove = last.record.psd === 'y' && last.domain !== domain;
  if (!isSuffixAbove) return last.domain;
  return domain
    .split('.')
    .slice(-(last.domain.split('.').length + 1))
    .join('.');
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
  const { found, isIncomplete } = await walk(domain, dns);
  if (isIncomplete) return 'unknown';
  const organization = organizationalDomain(domain, found);
  const [first, last] = [found[0], found.at(-1)];
  const own = first?.domain === domain ? first : undefined;
  const applied =
    own ?? found.find((one) => one.domain === organization) ?? (last?.record.psd === 'y' ? last : undefined);
  if (!applied) return undefined;
  const { record } = applied;
  const isMissing = !own && (await dns.resolveTxt(domain)).status === 'no-such-domain';
  const policy = own ? record.policy : isMissing ? record.nonexistentPolicy : record.subdomainPolicy;
  return {
    publishedAt: applied.domain,
    record,
    policy: record.isTesting ? oneLevelBelow(policy) : policy,
    organizationalDomain: organization,
  };
}

/** Returns the policy that receivers apply in test mode (§4.7, `t`). */
function oneLevelBelow(policy: DmarcPolicy): DmarcPolicy {
  return policy === 'reject' ? 'quarantine' : 'none';
}

/** Returns the organizational domain of a name; undefined if a lookup failed. */
export async function organizationOf(domain: string, dns: Pick<Dns, 'resolveTxt'>): Promise<string | undefined> {
  const { found, isIncomplete } = await walk(domain, dns);
  return isIncomplete ? undefined : organizationalDomain(domain, found);
}

/**
 * DMARC records (RFC 9989): parses them as receivers do and finds those of a domain with the DNS tree walk in §4.10, which makes at most
 * eight queries and needs no list of public suffixes.
 */
import type { QueryAnswer } from './dns-query.ts';
import { parseTagList, type TagList } from './tag-list.ts';

export type DmarcPolicy = 'none' | 'quarantine' | 'reject';

/** A record as receivers act on it. */
export interface DmarcRecord {
  text: string;
  /** Whether receivers do nothing for DMARC: the record has no valid policy and requests no reports (§4.10.1). */
  isIgnored: boolean;
  /** For the domain itself; `none` if the record has no valid policy. */
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

export interface ParsedDmarc extends Pick<TagList, 'tags' | 'duplicate'> {
  /** Undefined if a tag is in the record twice, so that receivers discard it. */
  record: DmarcRecord | undefined;
  /** The first policy tag with an unknown value. */
  invalidPolicy: 'p' | 'sp' | 'np' | undefined;
}

const VERSION = /^[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)/;
const POLICY = /^(?:none|quarantine|reject)$/;
/** A reporting URI (§4.8): a scheme and its value, so not a bare address. RFC 7489 allowed a size after it. */
const REPORT_URI = /^[a-z][a-z0-9+.-]*:[^\s,!]+(?:![0-9]+[kmgt]?)?$/i;

export function isDmarcRecord(text: string): boolean {
  return VERSION.test(text.trim());
}

/** Parses a text that is a DMARC record. Syntax errors other than a repeated tag are ignored. */
export function parseDmarcRecord(text: string): ParsedDmarc {
  const { tags, duplicate } = parseTagList(text);
  const value = (name: string): string => (tags.get(name) ?? '').toLowerCase();
  const invalidPolicy = (['p', 'sp', 'np'] as const).find((name) => tags.has(name) && !POLICY.test(value(name)));
  if (duplicate !== undefined) return { tags, duplicate, record: undefined, invalidPolicy };
  const hasPolicy = invalidPolicy === undefined && tags.has('p');
  const requestsReports = (tags.get('rua') ?? '').split(',').some((uri) => REPORT_URI.test(uri.trim()));
  const policyOf = (name: string, otherwise: DmarcPolicy): DmarcPolicy =>
    hasPolicy && tags.has(name) ? (value(name) as DmarcPolicy) : otherwise;
  const policy = policyOf('p', 'none');
  const subdomainPolicy = policyOf('sp', policy);
  const psd = value('psd');
  const record: DmarcRecord = {
    text,
    isIgnored: !hasPolicy && !requestsReports,
    policy,
    subdomainPolicy,
    nonexistentPolicy: policyOf('np', subdomainPolicy),
    isTesting: value('t') === 'y',
    psd: psd === 'y' || psd === 'n' ? psd : 'u',
    isDkimStrict: value('adkim') === 's',
    isSpfStrict: value('aspf') === 's',
  };
  return { tags, duplicate, record, invalidPolicy };
}

/** Returns the single record of a name; several records count as none (§4.10). */
function recordIn(answer: QueryAnswer): DmarcRecord | undefined {
  const [text, ...others] = (answer.status === 'found' ? answer.value : []).filter(isDmarcRecord);
  return text === undefined || others.length > 0 ? undefined : parseDmarcRecord(text).record;
}

/** A longer name is shortened to this many labels after the first query, which limits the walk to eight queries. */
const WALKED_LABELS = 7;

export interface TreeWalk {
  /** Longest name first. */
  found: { domain: string; record: DmarcRecord }[];
  /** The query that failed and ended the walk, so that there may be more records. */
  failed: { name: string; cause: string } | undefined;
}

export type TxtLookup = (name: string) => Promise<QueryAnswer>;

/** Performs the DNS tree walk (§4.10): the records of a name and its parents, up to the top or to a `psd` tag that ends it. */
export async function walkTree(domain: string, lookUpTxt: TxtLookup): Promise<TreeWalk> {
  const found: TreeWalk['found'] = [];
  for (let labels = domain.split('.'); labels.length > 0; ) {
    const parent = labels.join('.');
    const name = `_dmarc.${parent}`;
    const answer = await lookUpTxt(name);
    if (answer.status === 'temporary') return { found, failed: { name, cause: answer.cause } };
    const record = recordIn(answer);
    if (record) found.push({ domain: parent, record });
    if (record && record.psd !== 'u') break;
    labels = labels.length > WALKED_LABELS ? labels.slice(-WALKED_LABELS) : labels.slice(1);
  }
  return { found, failed: undefined };
}

/** Returns the organizational domain by the records of a complete walk (§4.10.2). */
export function organizationalDomain(domain: string, found: TreeWalk['found']): string {
  const last = found.at(-1);
  if (last === undefined) return domain;
  const isSuffixAbove = last.record.psd === 'y' && last.domain !== domain;
  if (!isSuffixAbove) return last.domain;
  return domain
    .split('.')
    .slice(-(last.domain.split('.').length + 1))
    .join('.');
}

/** Returns the record that applies to a domain by the records of a walk: its own, that of its organization, or that of a public suffix. */
export function applicableRecord(domain: string, found: TreeWalk['found']): TreeWalk['found'][number] | undefined {
  const [first, last] = [found[0], found.at(-1)];
  if (first?.domain === domain) return first;
  const organization = organizationalDomain(domain, found);
  return found.find((one) => one.domain === organization) ?? (last?.record.psd === 'y' ? last : undefined);
}

/** Returns the policy that receivers apply: in test mode (§4.7, `t`) one level below the requested policy. */
export function appliedPolicy(record: DmarcRecord, requested: DmarcPolicy): DmarcPolicy {
  if (!record.isTesting) return requested;
  return requested === 'reject' ? 'quarantine' : 'none';
}

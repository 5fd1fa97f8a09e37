/**
 * Evaluates DMARC (RFC 9989): whether SPF or a DKIM signature passed for a domain that is aligned with the Author Domain, and which policy
 * the domain has for mail that fails. Organizational domains are found by tree walks, of which a message can cause at most eleven.
 */

import {
  applicableRecord,
  appliedPolicy,
  type DmarcPolicy,
  type DmarcRecord,
  organizationalDomain,
  walkTree,
} from './dmarc-record.ts';
import { comparableDomain, failedQuery, isSameOrBelow, type Resolve } from './dns-query.ts';

export interface DmarcInput {
  /** The Author Domain, comparable. */
  author: string;
  /** Domains for which SPF passed, and for which a DKIM signature passed. */
  spfDomains: readonly string[];
  dkimDomains: readonly string[];
}

export interface DmarcResult {
  result: 'none' | 'pass' | 'fail' | 'temperror';
  /** Undefined without a record. */
  policy: DmarcPolicy | undefined;
  /** The query that failed. */
  reason: string | undefined;
}

/** The walk for the Author Domain and up to this many for other domains. */
const MAX_WALKS = 10;

/** Evaluates DMARC; never rejects. `resolve` should answer repeated queries from memory, because the walks of related domains overlap. */
export async function checkDmarc(
  { author, spfDomains, dkimDomains }: DmarcInput,
  resolve: Resolve,
): Promise<DmarcResult> {
  const none: DmarcResult = { result: 'none', policy: undefined, reason: undefined };
  // A domain literal has no record.
  if (author.startsWith('[')) return none;
  const alignment = new Alignment(author, resolve);
  const { found, failed } = await alignment.walk(author);
  if (failed && found[0]?.domain !== author) return { ...none, result: 'temperror', reason: walkError(failed) };
  const applied = applicableRecord(author, found);
  if (!applied || applied.record.isIgnored) return none;
  const { record } = applied;
  const requested =
    applied.domain === author
      ? { policy: record.policy, error: undefined }
      : await inheritedPolicy(author, record, resolve);
  const policy = appliedPolicy(record, requested.policy);
  const bySpf = await alignment.ofAny(spfDomains, record.isSpfStrict);
  const byDkim = bySpf.isAligned ? bySpf : await alignment.ofAny(dkimDomains, record.isDkimStrict);
  if (byDkim.isAligned) return { result: 'pass', policy, reason: undefined };
  const error = bySpf.error ?? byDkim.error ?? requested.error;
  return { result: error === undefined ? 'fail' : 'temperror', policy, reason: error };
}

interface RequestedPolicy {
  policy: DmarcPolicy;
  error: string | undefined;
}

const STRENGTH: DmarcPolicy[] = ['none', 'quarantine', 'reject'];

/**
 * Returns the policy that a record requests for a subdomain (§4.7, `sp` and `np`). If it cannot be determined whether the subdomain exists,
 * that is the weaker one.
 */
async function inheritedPolicy(domain: string, record: DmarcRecord, resolve: Resolve): Promise<RequestedPolicy> {
  const { subdomainPolicy, nonexistentPolicy } = record;
  if (subdomainPolicy === nonexistentPolicy) return { policy: subdomainPolicy, error: undefined };
  const addresses = await resolve(domain, 'A');
  // A CNAME exists even if its target does not.
  const isAlias = addresses.status === 'no-such-domain';
  const answer = isAlias ? await resolve(domain, 'CNAME') : addresses;
  if (answer.status === 'temporary') {
    const [policy] = [subdomainPolicy, nonexistentPolicy].sort((a, b) => STRENGTH.indexOf(a) - STRENGTH.indexOf(b));
    return { policy: policy!, error: failedQuery(domain, isAlias ? 'CNAME' : 'A', answer.cause) };
  }
  const exists = isAlias ? answer.status === 'found' : true;
  return { policy: exists ? subdomainPolicy : nonexistentPolicy, error: undefined };
}

function walkError({ name, cause }: { name: string; cause: string }): string {
  return failedQuery(name, 'TXT', cause);
}

/** Alignment with one Author Domain (§4.4, §4.10.2). */
class Alignment {
  readonly #author: string;
  readonly #resolve: Resolve;
  readonly #walks = new Map<string, ReturnType<typeof walkTree>>();

  constructor(author: string, resolve: Resolve) {
    this.#author = author;
    this.#resolve = resolve;
  }

  walk(domain: string): ReturnType<typeof walkTree> {
    const known = this.#walks.get(domain) ?? walkTree(domain, (name) => this.#resolve(name, 'TXT'));
    this.#walks.set(domain, known);
    return known;
  }

  /** Returns whether a domain is aligned, and the first error that left it unknown for one. */
  async ofAny(
    domains: readonly string[],
    isStrict: boolean,
  ): Promise<{ isAligned: boolean; error: string | undefined }> {
    let error: string | undefined;
    for (const domain of domains.map(comparableDomain)) {
      const isAligned = domain === this.#author || (!isStrict && (await this.#isRelaxedAligned(domain)));
      if (isAligned === true) return { isAligned, error: undefined };
      if (isAligned !== false) error ??= isAligned;
    }
    return { isAligned: false, error };
  }

  /** Returns whether both domains have the same organizational domain, or the error that left it unknown. */
  async #isRelaxedAligned(domain: string): Promise<boolean | string> {
    const isRelated = domain.split('.').at(-1) === this.#author.split('.').at(-1);
    if (!isRelated) return false;
    const own = await this.walk(this.#author);
    if (own.failed) return walkError(own.failed);
    const organization = organizationalDomain(this.#author, own.found);
    // The organizational domain of a domain is the domain itself or one of its parents.
    if (!isSameOrBelow(domain, organization)) return false;
    if (!this.#walks.has(domain) && this.#walks.size > MAX_WALKS)
      return `alignment of ${domain} was not checked: more than ${MAX_WALKS} domains`;
    const { found, failed } = await this.walk(domain);
    if (failed) return walkError(failed);
    return organizationalDomain(domain, found) === organization;
  }
}

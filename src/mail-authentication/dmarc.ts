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
  type TreeWalk,
  walkTree,
} from './dmarc-record.ts';
import { comparableDomain, failedQuery, isSameOrBelow, type Resolve } from './dns-query.ts';

/** Domains whose check passed, and domains whose check ended in a temporary error, so that it may have passed. */
export interface CheckedDomains {
  passed: readonly string[];
  unknown: readonly string[];
}

export interface DmarcResult {
  result: 'none' | 'pass' | 'fail' | 'temperror';
  /** Undefined without a record. */
  policy: DmarcPolicy | undefined;
  /** The query or the check that failed. */
  reason: string | undefined;
}

/** The policy for one Author Domain. */
export interface AuthorPolicy {
  /** Comparable. */
  author: string;
  walk: TreeWalk;
  /** The record that applies, or the result for a domain without a usable one. */
  applied: { record: DmarcRecord; policy: DmarcPolicy; error: string | undefined } | DmarcResult;
}

/** The walk for the Author Domain and up to this many for other domains. */
const MAX_WALKS = 10;

/** Looks up the policy of an Author Domain with at most ten queries; never rejects. Does not depend on other results. */
export async function lookUpPolicy(author: string, resolve: Resolve): Promise<AuthorPolicy> {
  const none: DmarcResult = { result: 'none', policy: undefined, reason: undefined };
  // A domain literal has no record.
  if (author.startsWith('[')) return { author, walk: { found: [], failed: undefined }, applied: none };
  const walk = await walkTree(author, (name) => resolve(name, 'TXT'));
  const { found, failed } = walk;
  if (failed && found[0]?.domain !== author)
    return { author, walk, applied: { ...none, result: 'temperror', reason: walkError(failed) } };
  const applicable = applicableRecord(author, found);
  if (!applicable || applicable.record.isIgnored) return { author, walk, applied: none };
  const { record } = applicable;
  const requested =
    applicable.domain === author
      ? { policy: record.policy, error: undefined }
      : await inheritedPolicy(author, record, resolve);
  const policy = appliedPolicy(record, requested.policy);
  return { author, walk, applied: { record, policy, error: requested.error } };
}

/** Evaluates DMARC; never rejects. `resolve` should answer repeated queries from memory, because the walks of related domains overlap. */
export async function checkDmarc(
  { author, walk, applied }: AuthorPolicy,
  { spf, dkim }: { spf: CheckedDomains; dkim: CheckedDomains },
  resolve: Resolve,
): Promise<DmarcResult> {
  if ('result' in applied) return applied;
  const { record, policy } = applied;
  const alignment = new Alignment(author, walk, resolve);
  const bySpf = await alignment.ofAny(spf.passed, record.isSpfStrict);
  const byDkim = bySpf.isAligned ? bySpf : await alignment.ofAny(dkim.passed, record.isDkimStrict);
  if (byDkim.isAligned) return { result: 'pass', policy, reason: undefined };
  const error =
    bySpf.error ??
    byDkim.error ??
    applied.error ??
    (await alignment.errorOfAny('DKIM', dkim.unknown, record.isDkimStrict)) ??
    (await alignment.errorOfAny('SPF', spf.unknown, record.isSpfStrict));
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
  readonly #authorWalk: TreeWalk;
  readonly #walks = new Map<string, Promise<TreeWalk>>();

  constructor(author: string, authorWalk: TreeWalk, resolve: Resolve) {
    this.#author = author;
    this.#authorWalk = authorWalk;
    this.#resolve = resolve;
  }

  #walk(domain: string): Promise<TreeWalk> {
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

  /** Returns the error if the check of an aligned domain, or of one that may be aligned, ended in a temporary error. */
  async errorOfAny(check: 'SPF' | 'DKIM', domains: readonly string[], isStrict: boolean): Promise<string | undefined> {
    const { isAligned, error } = await this.ofAny(domains, isStrict);
    return isAligned ? `${check} of an aligned domain ended in a temporary error` : error;
  }

  /** Returns whether both domains have the same organizational domain, or the error that left it unknown. */
  async #isRelaxedAligned(domain: string): Promise<boolean | string> {
    const isRelated = domain.split('.').at(-1) === this.#author.split('.').at(-1);
    if (!isRelated) return false;
    const { found: own, failed: ownFailed } = this.#authorWalk;
    if (ownFailed) return walkError(ownFailed);
    const organization = organizationalDomain(this.#author, own);
    // The organizational domain of a domain is the domain itself or one of its parents.
    if (!isSameOrBelow(domain, organization)) return false;
    if (!this.#walks.has(domain) && this.#walks.size >= MAX_WALKS)
      return `alignment of ${domain} was not checked: more than ${MAX_WALKS} domains`;
    const { found, failed } = await this.#walk(domain);
    if (failed) return walkError(failed);
    return organizationalDomain(domain, found) === organization;
  }
}

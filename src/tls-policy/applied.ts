/**
 * Policies as reports name them (RFC 8460 §4.2), and decisions that count their results. A session counts once: with what failed in it, or
 * else with what was wrong with the policy. Pure.
 */
import type { TlsaRecord } from '../net/dns.ts';
import type { AppliedPolicy, HostPolicy, TlsFailure, TlsSession } from './host-policy.ts';
import type { StsPolicy } from './mta-sts.ts';

export type HostDecision = { ok: true; policy?: HostPolicy } | Refused;

/** No connection may be made now. */
interface Refused {
  ok: false;
  /** One sentence. */
  reason: string;
  /** The policy that forbids it, if known. */
  name?: 'dane' | 'mta-sts';
  /** Counts the session that was not started, for the reports. */
  note?(): void;
}

/** The policy behind a decision. */
export interface DecidedBy {
  policy: AppliedPolicy;
  /** What is wrong with the policy, or with the MX host under it. */
  failure?: TlsFailure | undefined;
}

export interface Counting {
  domain: string;
  host: string;
  count(session: TlsSession): void;
}

/** RFC 8461 §3.2, as the policy host returns it; shortened if it has very many. */
const MAX_PATTERNS = 50;

/** `policy` is missing if the DNS announces one that could not be fetched. */
export function stsApplied(domain: string, policy: StsPolicy | undefined): AppliedPolicy {
  if (!policy) return { type: 'sts', domain, lines: [], mx: [] };
  const mx = policy.mx.slice(0, MAX_PATTERNS);
  const patterns = mx.map((pattern) => `mx: ${pattern}`);
  const lines = ['version: STSv1', `mode: ${policy.mode}`, ...patterns, `max_age: ${policy.maxAgeSeconds}`];
  return { type: 'sts', domain, lines, mx };
}

/** `base` is the name of the records, which is the policy domain (RFC 8460 §1.1). */
export function daneApplied(base: string, records: readonly TlsaRecord[]): AppliedPolicy {
  const texts = records.map((one) => `${one.usage} ${one.selector} ${one.matching} ${one.data.toString('hex')}`);
  return { type: 'tlsa', domain: base, lines: texts.sort(), mx: [] };
}

export function nothingApplied(domain: string): AppliedPolicy {
  return { type: 'no-policy-found', domain, lines: [], mx: [] };
}

const OPPORTUNISTIC = { name: 'opportunistic', mandatory: false, words: '' } as const;

/** Returns the same decision, with counting. */
export function counted(decision: HostDecision, by: DecidedBy, { domain, host, count }: Counting): HostDecision {
  const about = { domain, host, policy: by.policy };
  const wrong = by.failure && { failure: by.failure };
  if (!decision.ok) return { ...decision, note: () => count({ ...about, ...wrong }) };
  const { policy = OPPORTUNISTIC } = decision;
  return { ok: true, policy: { ...policy, note: (result) => count({ ...about, ...wrong, ...result }) } };
}

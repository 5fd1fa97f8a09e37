/**
 * Policies as reports name them (RFC 8460 §4.2), and decisions that tell what became of them. A session counts once: as what failed in it,
 * or else as what was wrong with the policy itself. Pure.
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
  /** The policy that forbids it, where it is known. */
  name?: 'dane' | 'mta-sts';
  /** Counts the session that was not begun, for the reports. */
  note?(): void;
}

/** What a decision was made by. */
export interface DecidedBy {
  policy: AppliedPolicy;
  /** What is wrong with the policy, or with how the exchanger stands in it. */
  failure?: TlsFailure | undefined;
}

export interface Counting {
  domain: string;
  host: string;
  count(session: TlsSession): void;
}

/** RFC 8461 §3.2, as the policy host gives it; shortened where it names very many. */
const MAX_PATTERNS = 50;

/** `policy` is missing where the DNS speaks of one that could not be had. */
export function stsApplied(domain: string, policy: StsPolicy | undefined): AppliedPolicy {
  if (!policy) return { type: 'sts', domain, lines: [], mx: [] };
  const mx = policy.mx.slice(0, MAX_PATTERNS);
  const patterns = mx.map((pattern) => `mx: ${pattern}`);
  const lines = ['version: STSv1', `mode: ${policy.mode}`, ...patterns, `max_age: ${policy.maxAgeSeconds}`];
  return { type: 'sts', domain, lines, mx };
}

/** `base` is where the records stand, which is the policy's domain (RFC 8460 §1.1). */
export function daneApplied(base: string, records: readonly TlsaRecord[]): AppliedPolicy {
  const texts = records.map((one) => `${one.usage} ${one.selector} ${one.matching} ${one.data.toString('hex')}`);
  return { type: 'tlsa', domain: base, lines: texts.sort(), mx: [] };
}

export function nothingApplied(domain: string): AppliedPolicy {
  return { type: 'no-policy-found', domain, lines: [], mx: [] };
}

const OPPORTUNISTIC = { name: 'opportunistic', mandatory: false, words: '' } as const;

/** The same decision, which counts. */
export function counted(decision: HostDecision, by: DecidedBy, { domain, host, count }: Counting): HostDecision {
  const about = { domain, host, policy: by.policy };
  const wrong = by.failure && { failure: by.failure };
  if (!decision.ok) return { ...decision, note: () => count({ ...about, ...wrong }) };
  const { policy = OPPORTUNISTIC } = decision;
  return { ok: true, policy: { ...policy, note: (result) => count({ ...about, ...wrong, ...result }) } };
}

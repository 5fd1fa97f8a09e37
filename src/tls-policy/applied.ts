/**
 * Describes policies as reports name them (RFC 8460 §4.2), and counts the results of decisions. A session counts once: with its own
 * failure, or otherwise with the failure of the policy. Pure.
 */
import type { TlsaRecord } from '../net/dns.ts';
import type { AppliedPolicy, HostPolicy, TlsFailure, TlsSession } from './host-policy.ts';
import type { StsPolicy } from './mta-sts.ts';

export type HostDecision = { ok: true; policy?: HostPolicy } | Refusal;

/** No connection can be made now. */
interface Refusal {
  ok: false;
  /** One sentence that explains why. */
  reason: string;
  /** The policy that forbids it, if known. */
  name?: 'dane' | 'mta-sts';
  /** Counts the session that was not started, for the reports. */
  note?(): void;
}

/** The policy behind a decision. */
export interface DecidedBy {
  policy: AppliedPolicy;
  /** The failure of the policy, or of the MX host under the policy. */
  failure?: TlsFailure | undefined;
}

export interface Counting {
  domain: string;
  host: string;
  count(session: TlsSession): void;
}

/** Maximum number of mx patterns of a policy (RFC 8461 §3.2) in a report. */
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
  const session = { domain, host, policy: by.policy };
  const failed = by.failure && { failure: by.failure };
  if (!decision.ok) return { ...decision, note: () => count({ ...session, ...failed }) };
  const { policy = OPPORTUNISTIC } = decision;
  return { ok: true, policy: { ...policy, note: (result) => count({ ...session, ...failed, ...result }) } };
}

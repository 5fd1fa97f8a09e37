/**
 * Checks that each attempt applied the TLS policy in force at that moment: what the message requires, what the domain of its recipient
 * publishes, or nothing. An expired policy holds no message back, and no unpublished policy is applied.
 */
import type { MessageRow } from './oracle.ts';
import type { Peer } from './peers.ts';
import type { Policies } from './policies.ts';
import type { PolicyHost } from './policy-hosts.ts';
import type { Attempt, Conditions } from './schedule-oracle.ts';

/** Maximum time that a server's records are cached, plus a minute for failed lookups. */
const REMEMBERED_MS = 400_000;
/** If no domain requires anything: a session opened for a message that requires TLS also carries other messages. */
const UNASKED = ['opportunistic', 'requireTls'];
/** Maximum time from a response to its use by everything in progress. */
const RECORD_MS = 60_000;

export interface AppliedEvidence {
  attempts: readonly Attempt[];
  messages: readonly MessageRow[];
  peers: readonly Peer[];
  policies: Policies;
  policyHosts: readonly PolicyHost[];
  /** The wall clock at the start, Unix ms. */
  startMs: number;
  clockSetAtMs: readonly number[];
  deathsMs: readonly number[];
  isRefused: boolean;
  isShared: boolean;
  conditions: Conditions;
  /** No DNS query is lost. */
  isDnsSteady: boolean;
}

export function appliedFaults(evidence: AppliedEvidence): string[] {
  const { attempts, messages, clockSetAtMs, isShared } = evidence;
  if (clockSetAtMs.length > 0 || isShared) return [];
  const byId = new Map(messages.map((one) => [one.id, one]));
  return attempts.flatMap((attempt) => {
    const message = byId.get(attempt.message_id)!;
    const { recipient, mode } = message;
    if (mode !== 'live' || attempt.tlsPolicy === undefined) return [];
    const domain = recipient.split('@')[1]!;
    const allowed = allowedNames(evidence, { attempt, domain });
    const faults = allowed.has(attempt.tlsPolicy)
      ? []
      : [
          `attempt ${attempt.number} of ${message.id} to ${domain} applied ${attempt.tlsPolicy}, of ${[...allowed].join()}`,
        ];
    return [...faults, ...ofRecords(evidence, attempt), ...ofChange(evidence, { attempt, domain })];
  });
}

function allowedNames(
  evidence: AppliedEvidence,
  { attempt, domain }: { attempt: Attempt; domain: string },
): Set<string> {
  const { policies, policyHosts, startMs } = evidence;
  if (policies.signed.has(domain)) {
    const dane = policies.dane.get(attempt.host ?? '');
    // Records that cannot be looked up apply as well: the server is not dialed.
    return new Set(dane ? ['dane'] : ['dane', ...UNASKED]);
  }
  if (!policies.enforced.has(domain)) return new Set(UNASKED);
  const host = policyHosts.find((one) => one.domain === domain);
  if (host === undefined) return new Set(['mta-sts']);
  const ms = attempt.startedMs - startMs;
  const isSure = ({ atMs }: { atMs: number }): boolean =>
    atMs + RECORD_MS < ms &&
    !evidence.deathsMs.some((one) => evidence.isRefused || (one >= atMs && one < atMs + RECORD_MS));
  const last = host.served.filter((one) => isSure(one) && !one.isBroken()).at(-1);
  const isLast = last !== undefined && !host.served.some(({ atMs }) => atMs > last.atMs && atMs < ms);
  if (isLast && last.mode !== 'enforce') return new Set([...UNASKED, 'mta-sts-testing']);
  return new Set([...UNASKED, 'mta-sts', 'mta-sts-testing']);
}

/** No attempt is made under a policy whose DNS record has named another one since, unless its host was asked for that. */
function ofChange(
  { policyHosts, conditions, isDnsSteady, startMs }: AppliedEvidence,
  { attempt, domain }: { attempt: Attempt; domain: string },
): string[] {
  const { changedMs = Number.POSITIVE_INFINITY, askedMs } = policyHosts.find((one) => one.domain === domain) ?? {};
  const ms = attempt.startedMs - startMs;
  if (!conditions.isSteady || !isDnsSteady || ms < changedMs + REMEMBERED_MS) return [];
  return askedMs?.some((one) => one >= changedMs && one <= attempt.at - startMs)
    ? []
    : [
        `attempt ${attempt.number} of ${attempt.message_id} applied ${attempt.tlsPolicy}, and ${domain} has another policy`,
      ];
}

/** Returns messages that were held back by records of a server that were correct again by then. */
function ofRecords({ policies, peers, startMs }: AppliedEvidence, attempt: Attempt): string[] {
  const { host, reply, number, startedMs, message_id: id } = attempt;
  const dane = policies.dane.get(host ?? '');
  const isGood = peers.find(({ name }) => name === host)?.manners.tls === 'good';
  if (dane === undefined || !isGood || !/TLSA|by DANE/.test(reply ?? '')) return [];
  const ms = startedMs - startMs;
  return ms > dane.untilMs + REMEMBERED_MS
    ? [`attempt ${number} of ${id} was held back by ${dane.kind} records of ${host}, which were over`]
    : [];
}

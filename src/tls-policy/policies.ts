/**
 * Finds the policy for a connection to an MX host: DANE if everything from the MX records on is secure, or else the MTA-STS policy of the
 * recipient's domain, if it has one. Both are known before connecting; if they cannot be determined because the database or the DNS fails,
 * the mail is delayed and never sent without them.
 */
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Cidr } from '../net/address-guard.ts';
import type { Dns } from '../net/dns.ts';
import { openHttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import { counted, type DecidedBy, daneApplied, type HostDecision, nothingApplied, stsApplied } from './applied.ts';
import { daneFailure, lookUpDane } from './dane.ts';
import { type HostPolicy, type TlsFailure, type TlsSession, webPkiFailure } from './host-policy.ts';
import { type StsPolicy, stsNames } from './mta-sts.ts';
import { openStsPolicies, type StsAnswer } from './mta-sts-cache.ts';
import { createStsFetch } from './mta-sts-fetch.ts';

/** The requirements of one domain. */
export interface DomainPolicy {
  /** Whether the domain has requirements. If so, a session that was opened for another domain cannot be used. */
  isAsking: boolean;
  /** Changes with the requirements that are known before a host is chosen. A session with an older version cannot be used. */
  version: string;
  /** Returns the policy for a connection to this MX host, or one sentence that explains why no connection can be made now. */
  ofHost(host: string, port: number): Promise<HostDecision>;
}

export interface TlsPolicies extends Running {
  /** `domain` is in A-labels. Errors of a peer never reject. */
  ofDomain(domain: string): Promise<DomainPolicy>;
  /** Fetches policies older than a day; runs automatically every ten minutes. */
  refresh(): Promise<void>;
}

export interface TlsPoliciesOptions {
  database: Database;
  dns: Dns;
  clock: Clock;
  log: Log;
  /** Nonpublic addresses that are allowed as policy hosts. */
  allow: readonly Cidr[];
  /** Whether this process refreshes policies. */
  isChosen?: () => boolean;
  /** Counts every session, for the reports. */
  count?: ((session: TlsSession) => void) | undefined;
  /** Port and certificate authority of policy hosts, for tests. */
  https?: { port: number; ca: string };
}

export function openTlsPolicies(options: TlsPoliciesOptions): TlsPolicies {
  const { database, dns, clock, log, allow, isChosen, count, https } = options;
  const http = openHttpClient({ lookup: dns.resolveAddresses, allow, ...(https && { ca: https.ca }) });
  const fetchPolicy = createStsFetch({ http, ...(https && { port: https.port }) });
  const sts = openStsPolicies({ database, dns, fetchPolicy, clock, log, ...(isChosen && { isChosen }) });

  return {
    ofDomain: async (domain) => {
      try {
        const [answer, isSecure] = await Promise.all([sts.policyOf(domain), hasSecureMx(dns, domain)]);
        const { policy } = answer;
        return {
          isAsking: policy !== undefined || isSecure,
          version: `${isSecure ? 'dane ' : ''}${policy ? `${policy.mode} ${policy.mx.join()}` : ''}`,
          ofHost: async (host, port) => {
            const dane = isSecure ? await daneDecision({ dns, clock }, { domain, host, port }) : undefined;
            // Records of which none is usable only require TLS; a stricter MTA-STS policy then takes precedence.
            const isMore = dane?.decision.ok && !dane.decision.policy?.check && policy?.mode === 'enforce';
            const { decision, by } = dane && !isMore ? dane : stsDecision(answer, { domain, host });
            return count ? counted(decision, by, { domain, host, count }) : decision;
          },
        };
      } catch (error) {
        log.warn({ domain, error: (error as Error).message }, 'TLS policy lookup failed');
        const reason = `Postrider cannot tell at the moment whether ${domain} requires TLS`;
        return { isAsking: true, version: 'unknown', ofHost: async () => ({ ok: false, reason }) };
      }
    },
    refresh: sts.refresh,
    stop: async () => {
      await sts.stop();
      await http.close();
    },
  };
}

/**
 * Without MX records, requires the proof that there are none. Rejects if the DNS fails (RFC 7672 §2.2.1): an attacker may be suppressing
 * the answer.
 */
async function hasSecureMx(dns: Dns, domain: string): Promise<boolean> {
  const mx = await dns.resolveMx(domain);
  if (mx.status === 'temporary') throw new Error(`the MX records of ${domain} cannot be looked up (${mx.cause})`);
  return (mx.status === 'found' || mx.status === 'no-data') && mx.secure;
}

interface Decided {
  decision: HostDecision;
  by: DecidedBy;
}

/** Returns undefined if there is no DANE for this host. */
async function daneDecision(
  { dns, clock }: Pick<TlsPoliciesOptions, 'dns' | 'clock'>,
  { domain, host, port }: { domain: string; host: string; port: number },
): Promise<Decided | undefined> {
  const answer = await lookUpDane(dns, host, port);
  if (answer.kind === 'none') return undefined;
  if (answer.kind === 'failed') {
    const reason = `Postrider cannot tell whether DANE requires TLS for ${host}: the DNS lookup of ${answer.name} failed (${answer.cause})`;
    const failure: TlsFailure = { type: 'dnssec-invalid', message: reason };
    return { decision: { ok: false, reason, name: 'dane' }, by: { policy: daneApplied(host, []), failure } };
  }
  const { base, records, usable } = answer;
  const words = `the TLSA records of ${base} (DANE)`;
  const names = [...new Set([base, host, domain])];
  const check: HostPolicy['check'] = (peer) => daneFailure(peer, { usable, names, words, nowMs: clock.now() });
  const mandatory = { name: 'dane' as const, mandatory: true, words: `the DANE policy of ${base}` };
  const policy = daneApplied(base, records);
  if (usable.length > 0)
    return { decision: { ok: true, policy: { ...mandatory, serverName: base, check } }, by: { policy } };
  const failure: TlsFailure = { type: 'tlsa-invalid', message: `none of ${words} can be used` };
  return { decision: { ok: true, policy: mandatory }, by: { policy, failure } };
}

/** A stored policy applies even if a newer one could not be fetched; reports include that too. */
function stsDecision({ policy, failure }: StsAnswer, { domain, host }: { domain: string; host: string }): Decided {
  if (!policy) {
    const applied = failure ? stsApplied(domain, undefined) : nothingApplied(domain);
    return { decision: { ok: true }, by: { policy: applied, failure } };
  }
  const words = `the MTA-STS policy of ${domain}`;
  const unnamed = stsNames(policy, host)
    ? undefined
    : `${words} does not name ${host}, which is an MX host of the domain in DNS`;
  const unmet: TlsFailure | undefined =
    unnamed === undefined ? failure : { type: 'validation-failure', message: unnamed };
  const by = { policy: stsApplied(domain, policy), failure: unmet };
  if (unnamed !== undefined && policy.mode === 'enforce') {
    return { decision: { ok: false, reason: unnamed, name: 'mta-sts' }, by };
  }
  return { decision: { ok: true, policy: stsPolicy(policy, { host, words }) }, by };
}

function stsPolicy({ mode }: StsPolicy, { host, words }: { host: string; words: string }): HostPolicy {
  const mandatory = mode === 'enforce';
  const wanted = `${words} requires TLS with a certificate for ${host}`;
  const check: HostPolicy['check'] = (peer) => webPkiFailure(peer, host, wanted);
  return { name: mandatory ? 'mta-sts' : 'mta-sts-testing', mandatory, words, check };
}

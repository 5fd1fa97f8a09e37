/**
 * Domains that do not exist (NXDOMAIN) although they accepted mail recently: more often a registration that lapsed for an hour, or a zone
 * published empty by mistake, than a deleted domain. If the domain accepted mail of the account in the last 30 days, messages are retried
 * until it has been missing for five minutes; then they bounce as usual. With the retry schedule, the first two attempts are temporary, and
 * the third ends the message.
 *
 * When a domain went missing is kept in memory, with a limit: a restart grants another five minutes.
 */
import type { Log } from '../../base/log.ts';
import type { Evidence } from '../outcome/outcome.ts';
import { domainOf } from './route.ts';

const GRACE_MS = 300_000;
/** Longer than the longest interval between two attempts. */
const KEPT_MS = 86_400_000;
const MAX_ENTRIES = 10_000;

export interface MissingDomainDeps {
  now(): number;
  /** Whether the domain accepted mail of this account in the last 30 days. */
  acceptedMailRecently(accountId: string, domain: string): Promise<boolean>;
  log: Log;
}

export interface MissingDomains {
  /** Returns the evidence unchanged, or a temporary failure instead. */
  evidenceFor(evidence: Evidence, mail: { accountId: string; recipient: string }): Promise<Evidence>;
  /** The domain of this recipient exists. */
  exists(recipient: string): void;
}

export function openMissingDomains({ now, acceptedMailRecently, log }: MissingDomainDeps): MissingDomains {
  const since = new Map<string, number>();

  const missingSince = (domain: string): number => {
    const known = since.get(domain);
    if (known !== undefined && now() - known < KEPT_MS) return known;
    since.delete(domain);
    since.set(domain, now());
    if (since.size > MAX_ENTRIES) since.delete(since.keys().next().value!);
    return now();
  };

  /** If this cannot be determined, retry: waiting without success is better than losing a message. */
  const acceptedMail = async (accountId: string, domain: string): Promise<boolean> => {
    try {
      return await acceptedMailRecently(accountId, domain);
    } catch (error) {
      log.warn({ error: (error as Error).message }, 'lookup of recent deliveries to a domain failed');
      return true;
    }
  };

  return {
    evidenceFor: async (evidence, { accountId, recipient }) => {
      if (evidence.stage !== 'dns' || evidence.local?.enhanced !== '5.1.2') return evidence;
      const domain = domainOf(recipient);
      if (now() - missingSince(domain) >= GRACE_MS || !(await acceptedMail(accountId, domain))) return evidence;
      const message = `${evidence.local.text}, although it accepted mail in the last 30 days`;
      return { stage: 'dns', cause: 'ENOTFOUND', message, relay: evidence.relay };
    },
    exists: (recipient) => {
      if (since.size > 0) since.delete(domainOf(recipient));
    },
  };
}

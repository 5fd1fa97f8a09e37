/**
 * What is known to hurt mail of a sender that is verified: its DKIM record is gone or was never seen, its signature is not aligned
 * with a strict DMARC policy, or its return path fails SPF, so that DMARC rests on the signature alone (RFC 7489 §3.1). Answers
 * within three seconds; what the DNS has not said by then is left out.
 */
import { iso } from '../base/clock.ts';
import { within } from '../base/lifecycle.ts';
import { domainToAscii } from '../mail/address.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import { findDmarc } from './dmarc.ts';
import { lookUpSpf, suggestedSpf } from './spf.ts';
import {
  coveringDomains,
  domainOperation,
  isVouched,
  RETURN_PATH_LABEL,
  SENDS_WHILE_FAILING_MS,
  type SenderDomain,
  type SendingDomain,
  sendingDomainOperation,
} from './store.ts';

const DNS_LIMIT_MS = 3_000;

interface SenderWarning {
  code: string;
  message: string;
  remedy: string;
}

interface SenderAdviceOptions {
  database: Database;
  dns: Dns;
  /** Of the return path; undefined where it is the sender's own address. */
  bounceDomain?: string | undefined;
  /** The host that mail leaves from; undefined where it leaves from another, such as a relay. */
  sendingHost: string | undefined;
}

type SenderAdvice = (accountId: string, fromDomain: string) => Promise<SenderWarning[]>;

export function createSenderAdvice(options: SenderAdviceOptions): SenderAdvice {
  const { database } = options;
  return async (accountId, fromDomain) => {
    const from = domainToAscii(fromDomain) ?? '';
    const names = coveringDomains(from);
    if (names.length === 0) return [];
    const sending = await database.execute(sendingDomainOperation, { accountId, names, failingAfterMs: null });
    const domain = sending && (await database.execute(domainOperation, { id: sending.id, accountId }));
    if (!domain) return [];
    const asked: SenderWarning[] = [];
    const ask = async (look: Promise<SenderWarning | undefined>): Promise<void> => {
      const warning = await look;
      if (warning) asked.push(warning);
    };
    const looks = Promise.all([ask(strictDmarc(from, domain, options.dns)), ask(returnPath(from, sending, options))]);
    await within(looks, performance.now() + DNS_LIMIT_MS);
    return [...recordWarnings(domain), ...asked];
  };
}

function recordWarnings(domain: SenderDomain): SenderWarning[] {
  const remedy = `Publish the records of GET /domains/${domain.id}/dns-records, then call POST /domains/${domain.id}/verify.`;
  if (domain.status === 'failing') {
    const until = iso((domain.failingSince ?? domain.createdAt) + SENDS_WHILE_FAILING_MS);
    const message = `The DKIM record of ${domain.domain} is gone: receivers cannot check the signature, and from ${until} on its mail is refused.`;
    return [{ code: 'DKIM_RECORD_GONE', message, remedy }];
  }
  if (!isVouched(domain)) return [];
  const message = `An operator vouched for ${domain.domain}; whether receivers can check its signature is not known, since its DKIM record was not found yet.`;
  return [{ code: 'DKIM_NOT_VERIFIED', message, remedy }];
}

/** A policy with adkim=s asks for a signature of exactly the domain of From (RFC 7489 §6.3). */
async function strictDmarc(from: string, { domain }: SenderDomain, dns: Dns): Promise<SenderWarning | undefined> {
  if (domain === from) return undefined;
  for (const name of coveringDomains(from)) {
    const { status, found } = findDmarc(name, await dns.resolveTxt(`_dmarc.${name}`));
    if (status === 'unknown') return undefined;
    if (status !== 'verified') continue;
    if (!/;\s*adkim\s*=\s*s\s*(?:;|$)/i.test(found?.[0] ?? '')) return undefined;
    return {
      code: 'DKIM_NOT_ALIGNED',
      message: `The DMARC policy of ${name} asks for signatures of exactly ${from} (adkim=s), and this mail is signed for ${domain}.`,
      remedy: `Add ${from} as a domain of its own with POST /domains, or publish adkim=r.`,
    };
  }
  return undefined;
}

/** SPF counts for DMARC where the domain of the return path is aligned with that of From (RFC 7489 §3.1.2). */
async function returnPath(
  from: string,
  { domain, hasReturnPath }: SendingDomain,
  { dns, sendingHost, bounceDomain }: SenderAdviceOptions,
): Promise<SenderWarning | undefined> {
  const isAligned = bounceDomain === domain || bounceDomain?.endsWith(`.${domain}`) === true;
  if (bounceDomain !== undefined && !hasReturnPath && !isAligned) {
    return {
      code: 'RETURN_PATH_NOT_ALIGNED',
      message: `The return path is an address of ${bounceDomain}, which is no name of ${domain}: for DMARC the signature alone counts.`,
      remedy: `Publish ${RETURN_PATH_LABEL}${domain} as a CNAME of ${bounceDomain}, then verify the domain.`,
    };
  }
  const path = bounceDomain === undefined ? from : hasReturnPath ? RETURN_PATH_LABEL + domain : bounceDomain;
  // A name that nobody can look up is the operator's affair, and is in no record.
  if (sendingHost === undefined || suggestedSpf(sendingHost).note !== null) return undefined;
  const { status, value } = await lookUpSpf(path, { dns, sendingHost });
  if (status !== 'missing' && status !== 'different') return undefined;
  return {
    code: 'RETURN_PATH_NOT_ALIGNED',
    message: `The return path is an address of ${path}, whose SPF record does not let ${sendingHost} send: for DMARC the signature alone counts.`,
    remedy: `Publish at ${path}, as its only SPF record: ${value}`,
  };
}

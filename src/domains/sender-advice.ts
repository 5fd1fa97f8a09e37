/**
 * Finds problems that hurt mail of a verified sender: its DKIM record disappeared or was never found, its signature is not aligned for
 * DMARC, or its return path fails SPF, so that DMARC depends on the signature alone (RFC 9989 §4.4). Returns within three seconds; lookups
 * that take longer are ignored.
 */
import { iso } from '../base/clock.ts';
import { within } from '../base/lifecycle.ts';
import { domainToAscii } from '../mail/address.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import { appliedDmarc, organizationOf } from './dmarc.ts';
import { lookUpSpf, suggestedSpf } from './spf.ts';
import {
  coveringDomains,
  domainOperation,
  isMarkedVerified,
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
  /** Domain of the return path; undefined if the return path is the sender's own address. */
  bounceDomain?: string | undefined;
  /** The host that sends the mail; undefined if another host does, such as a relay. */
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
    const requested: SenderWarning[] = [];
    const ask = async (look: Promise<SenderWarning | undefined>): Promise<void> => {
      const warning = await look;
      if (warning) requested.push(warning);
    };
    const looks = Promise.all([
      ask(unalignedSignature(from, domain, options.dns)),
      ask(returnPath(from, sending, options)),
    ]);
    await within(looks, performance.now() + DNS_LIMIT_MS);
    return [...recordWarnings(domain), ...requested];
  };
}

function recordWarnings(domain: SenderDomain): SenderWarning[] {
  const remedy = `Publish the records of GET /domains/${domain.id}/dns-records, then call POST /domains/${domain.id}/verify.`;
  if (domain.status === 'failing') {
    const until = iso((domain.failingSince ?? domain.createdAt) + SENDS_WHILE_FAILING_MS);
    const message = `The DKIM record of ${domain.domain} is missing, so receivers cannot verify signatures. Postrider rejects email from the domain after ${until}.`;
    return [{ code: 'DKIM_RECORD_GONE', message, remedy }];
  }
  if (!isMarkedVerified(domain)) return [];
  const message = `An operator marked ${domain.domain} as verified, but its DKIM record has not been found. Receivers may not be able to verify signatures.`;
  return [{ code: 'DKIM_NOT_VERIFIED', message, remedy }];
}

/**
 * Returns whether the signature of a domain is aligned with a name below it: with adkim=s only a signature of the name itself, otherwise
 * that of any domain with the same organizational domain (RFC 9989 §4.4.1).
 */
async function unalignedSignature(
  from: string,
  { domain }: SenderDomain,
  dns: Dns,
): Promise<SenderWarning | undefined> {
  if (domain === from) return undefined;
  const applied = await appliedDmarc(from, dns);
  if (applied === undefined || applied === 'unknown') return undefined;
  const { publishedAt, record, organizationalDomain } = applied;
  if (record.isDkimStrict) {
    return {
      code: 'DKIM_NOT_ALIGNED',
      message: `The DMARC policy of ${publishedAt} requires signatures of exactly ${from} (adkim=s), and this email is signed for ${domain}.`,
      remedy: `Add ${from} as a separate domain with POST /domains, or publish adkim=r.`,
    };
  }
  const signed = await organizationOf(domain, dns);
  if (signed === undefined || signed === organizationalDomain) return undefined;
  return {
    code: 'DKIM_NOT_ALIGNED',
    message: `For DMARC, ${organizationalDomain} is a separate organizational domain. This email is signed for ${domain}, so the signature does not align with ${from}.`,
    remedy: `Add ${from} as a separate domain with POST /domains, or publish a DMARC record at _dmarc.${domain}.`,
  };
}

/** SPF contributes to DMARC if the domain of the return path is aligned with that of From (RFC 9989 §4.4.2). */
async function returnPath(
  from: string,
  { domain, hasReturnPath }: SendingDomain,
  { dns, sendingHost, bounceDomain }: SenderAdviceOptions,
): Promise<SenderWarning | undefined> {
  const isAligned = bounceDomain === domain || bounceDomain?.endsWith(`.${domain}`) === true;
  if (bounceDomain !== undefined && !hasReturnPath && !isAligned) {
    return {
      code: 'RETURN_PATH_NOT_ALIGNED',
      message: `The return path is at ${bounceDomain}, which is not below ${domain}, so SPF does not align for DMARC; only the DKIM signature does.`,
      remedy: `Publish ${RETURN_PATH_LABEL}${domain} as a CNAME of ${bounceDomain}, then verify the domain.`,
    };
  }
  const path = bounceDomain === undefined ? from : hasReturnPath ? RETURN_PATH_LABEL + domain : bounceDomain;
  // A host name without public DNS is the operator's problem, and no SPF record can contain it.
  if (sendingHost === undefined || suggestedSpf(sendingHost).note !== null) return undefined;
  const { status, value } = await lookUpSpf(path, { dns, sendingHost });
  if (status !== 'missing' && status !== 'different') return undefined;
  return {
    code: 'RETURN_PATH_NOT_ALIGNED',
    message: `The SPF record of the return path ${path} does not include ${sendingHost}, so SPF does not pass for DMARC; only the DKIM signature does.`,
    remedy: `Publish at ${path}, as its only SPF record: ${value}`,
  };
}

/**
 * TLS reports as a part of the delivery: sessions are counted and reported where a domain is set that the reports come from. Their mail is of
 * the service itself, and signed by the account that has this domain; other mail of the service has no domain to sign for.
 */
import type { Running } from '../base/lifecycle.ts';
import type { DeliveryDeps } from '../delivery/delivery.ts';
import { createDkimKeyring, signingAccountOperation } from '../domains/domains.ts';
import { openHttpClient } from '../net/http-client.ts';
import { SYSTEM_ACCOUNT, type SystemMailer } from '../send/send.ts';
import { openTlsCounters, startReporter, type TlsCounters } from '../tls-reports/tls-reports.ts';
import { type Parts, ranges } from './parts.ts';

interface TlsReports extends Running, Pick<TlsCounters, 'count'> {}

/** Undefined where no domain is set. */
export function openTlsReports(parts: Parts, mail: Pick<SystemMailer, 'sendReport'>): TlsReports | undefined {
  const { config, database, clock, log, dns } = parts;
  const { reportDomain: submitter } = config;
  if (submitter === undefined) return undefined;
  const counters = openTlsCounters({ database, clock, log });
  const http = openHttpClient({ lookup: dns.lookupHost, allow: ranges(config.mxAllow), connectionsPerOrigin: 2 });
  const reporter = startReporter({
    ...{ database, clock, log, dns, http, submitter },
    isVerified: async () => (await database.execute(signingAccountOperation, submitter)) !== null,
    sendMail: mail.sendReport,
  });
  return {
    count: counters.count,
    stop: async () => {
      await Promise.all([reporter.stop(), counters.stop()]);
      await http.close();
    },
  };
}

/** All mail leaves signed or not at all, but for that of the service itself. A report that cannot be signed does not leave either. */
export function createKeysFor({ config, database, clock, secretKey }: Parts): DeliveryDeps['keysFor'] {
  const { reportDomain, smtpHostname } = config;
  const keyring = createDkimKeyring({ database, clock, secretKey });
  return async (accountId, domain) => {
    if (accountId !== SYSTEM_ACCOUNT) return (await keyring.keysFor(accountId, domain)) ?? 'unverified';
    if (domain !== reportDomain) return undefined;
    const signer = await database.execute(signingAccountOperation, domain);
    const keys = signer === null ? undefined : await keyring.keysFor(signer, domain);
    // Notices come from a name of this host, which may be the same.
    return keys ?? (domain === smtpHostname ? undefined : 'unverified');
  };
}

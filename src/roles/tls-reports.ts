/**
 * TLS reports within delivery: sessions are counted and reported if a sender domain is configured. Reports are sent as the service's own
 * mail, but signed by the account that owns that domain; other mail of the service has no signing domain.
 */
import type { Running } from '../base/lifecycle.ts';
import type { DeliveryDeps } from '../delivery/delivery.ts';
import { createDkimKeyring, signingAccountOperation } from '../domains/domains.ts';
import { openHttpClient } from '../net/http-client.ts';
import { SYSTEM_ACCOUNT, type SystemMailer } from '../send/send.ts';
import { openTlsCounters, startReporter, type TlsCounters } from '../tls-reports/tls-reports.ts';
import { type Parts, ranges } from './parts.ts';

interface TlsReports extends Running, Pick<TlsCounters, 'count'> {}

/** Returns undefined if no domain is configured. */
export function openTlsReports(parts: Parts, mail: Pick<SystemMailer, 'sendReport'>): TlsReports | undefined {
  const { config, database, clock, log, dns } = parts;
  const { reportDomain: submitter } = config;
  if (submitter === undefined) return undefined;
  const counters = openTlsCounters({ database, clock, log });
  const http = openHttpClient({ lookup: dns.lookupHost, allow: ranges(config.mxAllow), connectionsPerOrigin: 2 });
  const reporter = startReporter({
    database,
    clock,
    log,
    dns,
    http,
    submitter,
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

/** All mail is signed if possible. A report that cannot be signed is not sent. */
export function createKeysFor({ config, database, clock, secretKey }: Parts): DeliveryDeps['keysFor'] {
  const { reportDomain, smtpHostname } = config;
  const keyring = createDkimKeyring({ database, clock, secretKey });
  return async (accountId, domain) => {
    if (accountId !== SYSTEM_ACCOUNT) return (await keyring.keysFor(accountId, domain)) ?? 'unverified';
    if (domain !== reportDomain) return undefined;
    const signer = await database.execute(signingAccountOperation, domain);
    const keys = signer === null ? undefined : await keyring.keysFor(signer, domain);
    // Notices are sent from a name of this host, which may be the same.
    return keys ?? (domain === smtpHostname ? undefined : 'unverified');
  };
}

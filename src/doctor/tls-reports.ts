/**
 * Checks TLS reports in both directions (RFC 8460): whether Postrider sends them, and whether the return path publishes MTA-STS and TLS-RPT
 * records, if it receives mail.
 */
import type { Config } from '../config.ts';
import { findTlsRecords, signingAccountOperation } from '../domains/domains.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import { lastReportsOperation, type ReportsOfDay } from '../tls-reports/tls-reports.ts';
import { type Check, day, ok, skip, warn } from './check.ts';

export interface ReportFacts {
  /** Whether an account signs for the domain that sends the reports. */
  isSigned: boolean;
  last: ReportsOfDay | null;
}

export async function readReportFacts(database: Database, { reportDomain }: Pick<Config, 'reportDomain'>) {
  if (reportDomain === undefined) return undefined;
  const [signer, last] = await Promise.all([
    database.execute(signingAccountOperation, reportDomain),
    database.execute(lastReportsOperation, null),
  ]);
  return { isSigned: signer !== null, last };
}

export function checkTlsReports(config: Pick<Config, 'reportDomain' | 'route'>, facts?: ReportFacts): Check[] {
  const name = 'TLS reports';
  const { reportDomain, route } = config;
  if (route.kind === 'relay') return [skip(name, 'not sent: all mail goes to the relay, which must send the reports')];
  if (reportDomain === undefined) return [skip(name, 'not sent: POSTRIDER_REPORT_DOMAIN is not set')];
  if (!facts?.isSigned) {
    return [
      warn(
        name,
        `not sent: receivers reject unsigned reports, and no account has ${reportDomain} as a verified domain with a DKIM record`,
        `Add ${reportDomain} to one of your accounts, publish its records, and verify it: postrider domain add ACCOUNT ${reportDomain}`,
      ),
    ];
  }
  const sent = `sent from ${reportDomain}`;
  if (facts.last === null) return [ok(name, `${sent}; none due yet`)];
  const { counts } = facts.last;
  const { waiting = 0 } = counts;
  const numbers = [
    `${counts.sent ?? 0} sent`,
    ...(waiting > 0 ? [`${waiting} pending`] : []),
    ...(counts['given up'] ? [`${counts['given up']} abandoned`] : []),
    `${counts['not asked for'] ?? 0} domains request none`,
  ];
  return [ok(name, `${sent}; of ${day(facts.last.day)}: ${numbers.join(', ')}`)];
}

/** Checks the records that request TLS (RFC 8461 §3.1) and reports (RFC 8460 §3) for a domain that receives mail. */
export async function checkReturnPath(
  bounceDomain: string,
  dns: Pick<Dns, 'resolveMx' | 'resolveTxt'>,
): Promise<Check[]> {
  const name = 'return path';
  const [mx, records] = await Promise.all([dns.resolveMx(bounceDomain), findTlsRecords(bounceDomain, dns)]);
  if (mx.status === 'no-data' || mx.status === 'no-such-domain') return [];
  if (mx.status === 'temporary' || records.some((one) => one.status === 'unknown'))
    return [skip(name, `the DNS lookup of the records of ${bounceDomain} failed`)];
  const missing = records.filter((one) => one.status !== 'verified');
  if (missing.length === 0) return [ok(name, `${bounceDomain} publishes MTA-STS and TLS reporting`)];
  const what = missing.map(({ purpose }) => (purpose === 'mta-sts' ? 'MTA-STS' : 'TLS-RPT')).join(' and ');
  const remedies = missing.map(
    (one) => `Publish ${one.name} TXT "${one.value}".${one.note === null ? '' : ` ${one.note}`}`,
  );
  return [warn(name, `${bounceDomain} has no record for ${what}`, remedies.join(' '))];
}

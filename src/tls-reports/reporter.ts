/**
 * Sends the TLS reports of each past day (RFC 8460 §5), one for each domain that requests them, at some time in the four hours after it: by
 * mail, which is then queued like any other, or by https. Every address in the domain's record is served; failures are retried for 24 hours
 * (§5.5). Each report is sent by the node that holds its lease.
 *
 * Nothing is sent or planned while the sender domain of the reports is not verified: receivers accept none without its DKIM signature (§3).
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import type { Dns } from '../net/dns.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import { DAY_MS, dayOf } from './counters.ts';
import { type ReportMail, reportMail } from './mail.ts';
import { type ReportAddress, reportAddresses } from './record.ts';
import { CONTENT_TYPE, type TlsReport, writeReport } from './report.ts';
import {
  type ClaimedReport,
  claimReportsOperation,
  countsOperation,
  planOperation,
  type ReportOutcome,
  settleReportOperation,
  unplannedOperation,
} from './store.ts';

const MINUTE_MS = 60_000;
const PLAN_EVERY_MS = 15 * MINUTE_MS;
/** By then other nodes have written their counts of the day's last seconds. */
const GRACE_MS = 5 * MINUTE_MS;
const SPREAD_MS = 240 * MINUTE_MS - GRACE_MS;
/** A service that was down for a day still reports what it counted. */
const DAYS_BACK = 2;
const TRIED_FOR_MS = DAY_MS;
const RETRY_MS = [5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE_MS);
const LEASE_MS = 10 * MINUTE_MS;
const BATCH = 200;
const AT_ONCE = 5;
const POST_MS = 30_000;
/** Maximum number of different results in a report. */
const MAX_COUNTERS = 5_000;

export interface ReporterOptions {
  database: Database;
  clock: Clock;
  log: Log;
  dns: Pick<Dns, 'resolveTxt'>;
  http: Pick<HttpClient, 'post'>;
  /** The domain that reports are sent from. */
  submitter: string;
  /** Returns whether it is verified. */
  isVerified(): Promise<boolean>;
  /** Resolves when the mail is accepted. */
  sendMail(mail: ReportMail): Promise<void>;
  /** In [0, 1). */
  random?: () => number;
  roundMs?: number;
}

export function startReporter(options: ReporterOptions): Rounds {
  const { clock, log, isVerified, roundMs = MINUTE_MS } = options;
  let planAgainMs = 0;
  return startRounds({
    name: 'TLS reports',
    everyMs: roundMs,
    log,
    round: async (isStopping) => {
      if (!(await isVerified())) return;
      if (clock.now() >= planAgainMs) {
        await plan(options, isStopping);
        planAgainMs = clock.now() + PLAN_EVERY_MS;
      }
      await sendDue(options, isStopping);
    },
  });
}

async function plan({ database, clock, random = Math.random }: ReporterOptions, isStopping: () => boolean) {
  const today = dayOf(clock.now());
  const requested = { fromDay: today - DAYS_BACK * DAY_MS, toDay: today - DAY_MS, limit: BATCH };
  for (let count = BATCH; count === BATCH && !isStopping(); ) {
    const found = await database.execute(unplannedOperation, requested);
    const dueOf = (day: number): number => day + DAY_MS + GRACE_MS + Math.floor(random() * SPREAD_MS);
    await database.execute(
      planOperation,
      found.map((one) => ({ ...one, nextAt: dueOf(one.day) })),
    );
    count = found.length;
  }
}

async function sendDue(options: ReporterOptions, isStopping: () => boolean): Promise<void> {
  const { database, clock } = options;
  while (!isStopping()) {
    const claim = { nowMs: clock.now(), leaseMs: LEASE_MS, limit: AT_ONCE };
    const claimed = await database.execute(claimReportsOperation, claim);
    await Promise.all(claimed.map((one) => sendReport(options, one)));
    if (claimed.length < AT_ONCE) return;
  }
}

async function sendReport(options: ReporterOptions, claimed: ClaimedReport): Promise<void> {
  const { database, clock, dns, log, submitter } = options;
  const { day, domain, attempts } = claimed;
  const settle = async (served: string[], outcome: ReportOutcome | null, againInMs: number | null = null) => {
    const nowMs = clock.now();
    await database.execute(settleReportOperation, { day, domain, attempts, served, nowMs, againInMs, outcome });
  };
  const record = await dns.resolveTxt(`_smtp._tls.${domain}`);
  const addresses = record.status === 'found' ? reportAddresses(record.value) : [];
  if (addresses.length === 0 && record.status !== 'temporary') return settle([], 'not asked for');

  const failed: string[] = record.status === 'temporary' ? [`the DNS does not answer (${record.cause})`] : [];
  const served = [...claimed.served];
  const rest = addresses.filter(({ uri }) => !served.includes(uri));
  if (rest.length > 0) {
    const counters = await database.execute(countsOperation, { day, domain, limit: MAX_COUNTERS });
    const report = writeReport({ domain, day, submitter }, counters);
    for (const address of rest) {
      const fault = await deliver(options, report, { address, claimed });
      if (fault === undefined) served.push(address.uri);
      else failed.push(`${address.uri}: ${fault}`);
    }
  }
  const date = new Date(day).toISOString().slice(0, 10);
  const againInMs = RETRY_MS[Math.min(attempts, RETRY_MS.length) - 1]!;
  if (failed.length > 0 && claimed.triedForMs + againInMs <= TRIED_FOR_MS) {
    log.info({ domain, date, failed }, 'TLS report delayed');
    return settle(served, null, againInMs);
  }
  if (failed.length > 0) log.warn({ domain, date, failed, served }, 'TLS report abandoned');
  else log.info({ domain, date, served }, 'TLS report sent');
  return settle(served, served.length > 0 ? 'sent' : 'given up');
}

/** Returns why it was not accepted; undefined if it was. */
async function deliver(
  { http, sendMail }: ReporterOptions,
  report: TlsReport,
  { address, claimed }: { address: ReportAddress; claimed: ClaimedReport },
): Promise<string | undefined> {
  if (address.kind === 'mail') {
    const lifetimeMs = TRIED_FOR_MS - claimed.triedForMs;
    await sendMail(reportMail(report, { to: address.address, lifetimeMs }));
    return undefined;
  }
  const headers = { 'content-type': CONTENT_TYPE };
  const answer = await http.post({ url: address.uri, headers, body: report.content, timeoutMs: POST_MS });
  if (!answer.ok) return answer.message;
  return answer.status >= 200 && answer.status < 300 ? undefined : `it returned status ${answer.status}`;
}

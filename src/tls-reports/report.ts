/** Writes a TLS report (RFC 8460 §4.4, §5.1): gzipped JSON and its file name. Pure. */
import { gzipSync } from 'node:zlib';
import type { AppliedPolicy } from '../tls-policy/tls-policy.ts';
import { DAY_MS } from './counters.ts';
import type { CountRow } from './store.ts';

export interface ReportHead {
  /** Owner of the report: the recipient's domain, or the MX host with TLSA records. */
  domain: string;
  /** Unix ms of the start of the day in UTC. */
  day: number;
  /** The domain that the report comes from. */
  submitter: string;
}

export interface TlsReport extends ReportHead {
  id: string;
  fileName: string;
  content: Buffer;
}

/** RFC 8460 §4.4. */
interface PolicyResult {
  policy: {
    'policy-type': string;
    'policy-string'?: readonly string[];
    'policy-domain': string;
    'mx-host'?: readonly string[];
  };
  summary: { 'total-successful-session-count': number; 'total-failure-session-count': number };
  'failure-details'?: Record<string, string | number>[];
}

export const CONTENT_TYPE = 'application/tlsrpt+gzip';

export function contactOf(submitter: string): string {
  return `postmaster@${submitter}`;
}

/** Two versions of one report have the same id, by which receivers recognize the second (§5.3). */
function idOf({ domain, day, submitter }: ReportHead): string {
  return `${new Date(day).toISOString().slice(0, 10)}.${domain}@${submitter}`;
}

function policyOf({ type, domain, lines, mx }: AppliedPolicy): PolicyResult['policy'] {
  return {
    'policy-type': type,
    ...(lines.length > 0 && { 'policy-string': lines }),
    'policy-domain': domain,
    ...(mx.length > 0 && { 'mx-host': mx }),
  };
}

type Counter = Omit<CountRow, 'id' | 'day' | 'domain'>;

function failureDetail({ failure, localAddress, host, address, reason, sessions }: Counter) {
  return {
    'result-type': failure ?? '',
    ...(localAddress && { 'sending-mta-ip': localAddress }),
    ...(host && { 'receiving-mx-hostname': host }),
    ...(address && { 'receiving-ip': address }),
    'failed-session-count': sessions,
    ...(reason && { 'failure-reason-code': reason }),
  };
}

function resultsOf(counters: readonly Counter[]): PolicyResult[] {
  return [...Map.groupBy(counters, ({ policy }) => policy)].map(([policy, all]) => {
    const failed = all.filter(({ failure }) => failure);
    const sum = (some: readonly Counter[]): number => some.reduce((total, { sessions }) => total + sessions, 0);
    return {
      policy: policyOf(JSON.parse(policy) as AppliedPolicy),
      summary: {
        'total-successful-session-count': sum(all) - sum(failed),
        'total-failure-session-count': sum(failed),
      },
      ...(failed.length > 0 && { 'failure-details': failed.map(failureDetail) }),
    };
  });
}

/** RFC 3339, to the second. */
function dateTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

export function writeReport(head: ReportHead, counters: readonly Counter[]): TlsReport {
  const { domain, day, submitter } = head;
  const endMs = day + DAY_MS - 1_000;
  const id = idOf(head);
  const report = {
    'organization-name': submitter,
    'date-range': { 'start-datetime': dateTime(day), 'end-datetime': dateTime(endMs) },
    'contact-info': contactOf(submitter),
    'report-id': id,
    policies: resultsOf(counters),
  };
  const fileName = `${submitter}!${domain}!${day / 1_000}!${endMs / 1_000}.json.gz`;
  return { ...head, id, fileName, content: gzipSync(JSON.stringify(report)) };
}

/**
 * The rows of TLS reports (RFC 8460): session counters, to which all nodes add, and for each domain and day its report. A report is claimed
 * by one node at a time, under a lease by the database's clock; the number of the claim is its fence.
 */
import { currentTime, operation, serverTime, skipLocked } from '../storage/operation.ts';
import { insertMany, type TableRow, table } from '../storage/rows.ts';

const COUNT = table('tls_session_count', {
  id: 'text',
  /** Unix ms of its start in UTC. */
  day: 'int',
  /** Owner of the report that it belongs to. */
  domain: 'text',
  /** JSON of AppliedPolicy. */
  policy: 'text',
  /** Null for successful sessions. */
  failure: 'text?',
  localAddress: 'text?',
  host: 'text?',
  address: 'text?',
  /** The last reason, as a sentence. */
  reason: 'text?',
  sessions: 'int',
});
export type CountRow = TableRow<typeof COUNT>;

const ADD = `ON CONFLICT (id) DO UPDATE SET sessions = tls_session_count.sessions + excluded.sessions,
  reason = coalesce(excluded.reason, tls_session_count.reason)`;

/** Rows with different ids, sorted by id, so that two nodes never deadlock. */
export const addCountsOperation = operation('tlsReports.add', 'write', (tx, rows: CountRow[]) =>
  insertMany(tx, COUNT, rows, ADD),
);

interface ReportKey {
  day: number;
  domain: string;
}

/** Returns days with sessions that have no planned report yet, up to a number of domains. */
export const unplannedOperation = operation(
  'tlsReports.unplanned',
  'read',
  (tx, { fromDay, toDay, limit }: { fromDay: number; toDay: number; limit: number }) =>
    tx.all<ReportKey>(
      `SELECT DISTINCT c.day, c.domain FROM tls_session_count c
       WHERE c.day >= ? AND c.day <= ?
         AND NOT EXISTS (SELECT 1 FROM tls_report r WHERE r.day = c.day AND r.domain = c.domain)
       ORDER BY c.day, c.domain LIMIT ?`,
      fromDay,
      toDay,
      limit,
    ),
);

export const planOperation = operation(
  'tlsReports.plan',
  'write',
  async (tx, planned: (ReportKey & { nextAt: number })[]): Promise<void> => {
    for (const { day, domain, nextAt } of planned) {
      await tx.run(
        'INSERT INTO tls_report (day, domain, next_at) VALUES (?, ?, ?) ON CONFLICT (day, domain) DO NOTHING',
        day,
        domain,
        nextAt,
      );
    }
  },
);

export interface ClaimedReport extends ReportKey {
  /** Number of claims, including this one: the fence. */
  attempts: number;
  /** Time since the first claim. */
  triedForMs: number;
  served: string[];
}

interface Claim {
  nowMs: number;
  leaseMs: number;
  limit: number;
}

/** Claims due reports; no other node claims them until they are settled or the lease expires. */
export const claimReportsOperation = operation(
  'tlsReports.claim',
  'write',
  async (tx, { nowMs, leaseMs, limit }: Claim): Promise<ClaimedReport[]> => {
    const now = currentTime(tx, nowMs);
    const due = await tx.all<ReportKey & { attempts: number; firstAt: number | null; served: string }>(
      `SELECT day, domain, attempts, first_at AS "firstAt", served FROM tls_report
       WHERE next_at <= ${now.sql} ORDER BY next_at, domain LIMIT ? ${skipLocked(tx)}`,
      ...now.params,
      limit,
    );
    const claimedAt = (await serverTime(tx)) ?? nowMs;
    for (const { day, domain, attempts, firstAt } of due) {
      await tx.run(
        'UPDATE tls_report SET next_at = ?, attempts = ?, first_at = ? WHERE day = ? AND domain = ?',
        claimedAt + leaseMs,
        attempts + 1,
        firstAt ?? claimedAt,
        day,
        domain,
      );
    }
    return due.map(({ day, domain, attempts, firstAt, served }) => ({
      day,
      domain,
      attempts: attempts + 1,
      triedForMs: claimedAt - (firstAt ?? claimedAt),
      served: JSON.parse(served) as string[],
    }));
  },
);

/** Returns the counters of a domain's day, the largest first, so that a report leaves out the rarest. */
export const countsOperation = operation(
  'tlsReports.counts',
  'read',
  (tx, { day, domain, limit }: ReportKey & { limit: number }) =>
    tx.all<Omit<CountRow, 'id' | 'day' | 'domain'>>(
      `SELECT policy, failure, local_address AS "localAddress", host, address, reason, sessions FROM tls_session_count
       WHERE day = ? AND domain = ? ORDER BY sessions DESC, id LIMIT ?`,
      day,
      domain,
      limit,
    ),
);

export type ReportOutcome = 'sent' | 'not asked for' | 'given up';

interface Settlement extends ReportKey {
  attempts: number;
  served: string[];
  nowMs: number;
  /** Retry after this time; null if it is done. */
  againInMs: number | null;
  outcome: ReportOutcome | null;
}

/** Returns whether the claim still holds; an old one changes nothing. */
export const settleReportOperation = operation(
  'tlsReports.settle',
  'write',
  async (tx, { day, domain, attempts, served, nowMs, againInMs, outcome }: Settlement): Promise<boolean> => {
    const nextAt = againInMs === null ? null : ((await serverTime(tx)) ?? nowMs) + againInMs;
    const changed = await tx.run(
      `UPDATE tls_report SET served = ?, next_at = ?, outcome = ?
       WHERE day = ? AND domain = ? AND attempts = ? AND next_at IS NOT NULL`,
      JSON.stringify(served),
      nextAt,
      outcome,
      day,
      domain,
      attempts,
    );
    return changed > 0;
  },
);

/** Removes up to a number of counters and reports of days before this one; returns how many. */
export const removeTlsReportsOperation = operation(
  'tlsReports.remove',
  'write',
  async (tx, { beforeDay, limit }: { beforeDay: number; limit: number }): Promise<number> => {
    const counters = await tx.run(
      'DELETE FROM tls_session_count WHERE id IN (SELECT id FROM tls_session_count WHERE day < ? ORDER BY day LIMIT ?)',
      beforeDay,
      limit,
    );
    if (counters === limit) return counters;
    const reports = await tx.run(
      `DELETE FROM tls_report WHERE (day, domain) IN
         (SELECT day, domain FROM tls_report WHERE day < ? ORDER BY day LIMIT ?)`,
      beforeDay,
      limit - counters,
    );
    return counters + reports;
  },
);

export interface ReportsOfDay {
  day: number;
  /** Number of reports by outcome; `waiting` are still to be sent. */
  counts: Partial<Record<ReportOutcome | 'waiting', number>>;
}

/** Reports of the last day that has any; null if there are none. */
export const lastReportsOperation = operation(
  'tlsReports.last',
  'read',
  async (tx, _: null): Promise<ReportsOfDay | null> => {
    const rows = await tx.all<{ day: number; outcome: ReportOutcome | null; n: number }>(
      `SELECT day, outcome, count(*) AS n FROM tls_report
       WHERE day = (SELECT max(day) FROM tls_report) GROUP BY day, outcome`,
    );
    if (!rows[0]) return null;
    return { day: rows[0].day, counts: Object.fromEntries(rows.map(({ outcome, n }) => [outcome ?? 'waiting', n])) };
  },
);

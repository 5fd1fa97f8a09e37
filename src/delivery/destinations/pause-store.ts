/**
 * The pauses of destinations as shared by all nodes: the row of a destination stores until when it is paused and why, whether a probe has
 * ended the pause, and which node may probe. An operator ends a pause by setting its end to now. A pause that started far ahead of now
 * has expired, because the clock was set back. Rows are removed two days after their last change.
 */
import { change } from '../../audit/audit.ts';
import { CLOCK_TOLERANCE_MS } from '../../base/clock.ts';
import { DELIVERY_WORK } from '../../messages/messages.ts';
import { operation, skipLocked } from '../../storage/operation.ts';
import { rowset } from '../../storage/rows.ts';

const KEPT_MS = 172_800_000;
const READ_AT_MOST = 10_000;
const DAY_MS = 86_400_000;

/** Times in Unix ms. */
export interface PauseRow {
  destination: string;
  beganAt: number;
  untilAt: number;
  level: number;
  /** Unix ms since this host is blocked there. */
  blockedSince: number | null;
  host: string | null;
  /** JSON of the Outcome that started the pause. */
  outcome: string;
}

export interface PauseChanges {
  began: PauseRow[];
  /** Destinations whose probe succeeded. */
  ended: string[];
  nowMs: number;
}

/** A row whose pause is for the warm-up of some nodes' addresses: other nodes may send, and are paused for other reasons. */
const IS_WARM_UP = `destination_pause.outcome LIKE '%"category":"warm-up"%'`;

/** If several nodes start a pause at the same time, the first one is kept, unless it is for a warm-up. */
export const writePausesOperation = operation(
  'delivery.writePauses',
  'write',
  async (tx, { began, ended, nowMs }: PauseChanges): Promise<void> => {
    for (const { destination, beganAt, untilAt, level, blockedSince, host, outcome } of began) {
      await tx.run(
        `INSERT INTO destination_pause (destination, began_at, until_at, level, blocked_since, host, outcome, changed_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (destination) DO UPDATE SET began_at = excluded.began_at, until_at = excluded.until_at,
           level = excluded.level, blocked_since = excluded.blocked_since, host = excluded.host, outcome = excluded.outcome,
           ended_at = NULL, probe_holder = NULL, probe_until = 0, changed_at = excluded.changed_at
         WHERE destination_pause.ended_at IS NOT NULL OR destination_pause.until_at <= excluded.began_at
           OR destination_pause.began_at > ?
           OR (${IS_WARM_UP} AND excluded.outcome NOT LIKE '%"category":"warm-up"%')`,
        destination,
        beganAt,
        untilAt,
        level,
        blockedSince,
        host,
        outcome,
        nowMs,
        beganAt + CLOCK_TOLERANCE_MS,
      );
    }
    for (const destination of ended) {
      await tx.run(
        `UPDATE destination_pause SET ended_at = ?, changed_at = ? WHERE destination = ? AND ended_at IS NULL
           AND (until_at <= ? OR began_at > ?)`,
        nowMs,
        nowMs,
        destination,
        nowMs,
        nowMs + CLOCK_TOLERANCE_MS,
      );
    }
    await tx.run('DELETE FROM destination_pause WHERE changed_at < ?', nowMs - KEPT_MS);
  },
);

export interface ReadPause extends PauseRow {
  endedAt: number | null;
}

/** Reads the pauses that changed at or after this time, oldest change first. */
export const readPausesOperation = operation(
  'delivery.readPauses',
  'read',
  (tx, sinceMs: number): Promise<ReadPause[]> | ReadPause[] =>
    tx.all<ReadPause>(
      `SELECT destination, began_at AS "beganAt", until_at AS "untilAt", level, blocked_since AS "blockedSince", host,
         outcome, ended_at AS "endedAt" FROM destination_pause WHERE changed_at >= ?
       ORDER BY changed_at, destination LIMIT ${READ_AT_MOST}`,
      sinceMs,
    ),
);

export interface ProbeClaim {
  destination: string;
  /** The node that requests the permit. */
  holder: string;
  nowMs: number;
  untilMs: number;
}

export interface ProbeGrant {
  granted: boolean;
  /** Unix ms until which the permit is valid. */
  untilMs: number;
}

/**
 * Requests or extends the permit to probe a destination whose pause has expired; one node has it at a time. A pause for a warm-up does not
 * prevent a probe, because it applies to other nodes only.
 */
export const claimProbeOperation = operation(
  'delivery.claimProbe',
  'write',
  async (tx, { destination, holder, nowMs, untilMs }: ProbeClaim): Promise<ProbeGrant> => {
    const taken = await tx.run(
      `UPDATE destination_pause SET probe_holder = ?, probe_until = ? WHERE destination = ? AND ended_at IS NULL
         AND (until_at <= ? OR began_at > ? OR ${IS_WARM_UP}) AND (probe_until <= ? OR probe_holder = ? OR probe_until > ?)`,
      holder,
      untilMs,
      destination,
      nowMs,
      nowMs + CLOCK_TOLERANCE_MS,
      nowMs,
      holder,
      untilMs + CLOCK_TOLERANCE_MS,
    );
    if (taken === 1) return { granted: true, untilMs };
    const row = await tx.get<{ until: number; probeUntil: number; endedAt: number | null }>(
      'SELECT until_at AS until, probe_until AS "probeUntil", ended_at AS "endedAt" FROM destination_pause WHERE destination = ?',
      destination,
    );
    // The pause was ended, and this node will read that soon.
    if (!row) return { granted: true, untilMs };
    return { granted: false, untilMs: row.endedAt === null ? Math.max(row.until, row.probeUntil) : nowMs };
  },
);

/** Ends the pause of a destination on all nodes, as if it had expired. */
export const resumeDestinationOperation = change(
  'delivery.resumeDestination',
  async (tx, { destination, nowMs }: { destination: string; nowMs: number }): Promise<void> => {
    await tx.run(
      'UPDATE destination_pause SET until_at = ?, changed_at = ? WHERE destination = ? AND ended_at IS NULL AND until_at > ?',
      nowMs,
      nowMs,
      destination,
      nowMs,
    );
  },
  {
    action: 'destination.resume',
    table: 'destination_pause',
    where: ({ destination }) => ({ destination }),
    shows: ['until_at'],
  },
);

export interface BlockedDestination {
  destination: string;
  blockedSince: number;
  host: string | null;
  outcome: string;
}

/** Returns the destinations that block this host and whose operators were not notified in the last 24 hours. */
export const blockedToNotifyOperation = operation(
  'delivery.blockedToNotify',
  'read',
  (tx, nowMs: number): Promise<BlockedDestination[]> | BlockedDestination[] =>
    tx.all<BlockedDestination>(
      `SELECT destination, blocked_since AS "blockedSince", host, outcome FROM destination_pause
       WHERE blocked_since IS NOT NULL AND ended_at IS NULL AND (notified_at IS NULL OR notified_at <= ?)
       ORDER BY destination LIMIT 100`,
      nowMs - DAY_MS,
    ),
);

export const blockNotifiedOperation = operation(
  'delivery.blockNotified',
  'write',
  (tx, { destination, nowMs }: { destination: string; nowMs: number }) =>
    tx.run('UPDATE destination_pause SET notified_at = ? WHERE destination = ?', nowMs, destination),
);

/** Mail deferred by a pause is due again between these times, Unix ms. */
export interface DeferredSpan {
  fromMs: number;
  untilMs: number;
}

export interface DeferredRow {
  seq: number;
  due: number;
  /** The recipient's domain, in A-labels. */
  domain: string;
}

export interface DeferredPage extends DeferredSpan {
  /** The last row of the previous page; null for the first page. */
  after: Pick<DeferredRow, 'seq' | 'due'> | null;
  limit: number;
}

const PUT_OFF = `kind = ? AND held = 0 AND due >= ? AND due <= ? AND leased = 0 AND mode = 'live'`;
const DOMAIN = 'substr(lane, length(account_id) + 2)';

/** Reads a page of the mail due within a span, earliest first. */
export const deferredPageOperation = operation('delivery.deferredPage', 'read', (tx, page: DeferredPage) => {
  const { due, seq } = page.after ?? { due: page.fromMs, seq: 0 };
  return tx.all<DeferredRow>(
    `SELECT seq, due, ${DOMAIN} AS domain FROM work WHERE ${PUT_OFF} AND (due > ? OR seq > ?) ORDER BY due, seq LIMIT ?`,
    DELIVERY_WORK,
    due,
    page.untilMs,
    due,
    seq,
    page.limit,
  );
});

export interface DeferredCount extends DeferredSpan {
  rows: number;
  domains: number;
}

/** Counts the mail due within a span by domain, largest first. */
export const deferredByDomainOperation = operation(
  'delivery.deferredByDomain',
  'read',
  (tx, { fromMs, untilMs, rows, domains }: DeferredCount) =>
    tx.all<{ domain: string; count: number }>(
      `SELECT domain, count(*) AS count FROM
         (SELECT ${DOMAIN} AS domain FROM work WHERE ${PUT_OFF} ORDER BY due LIMIT ?) q
       GROUP BY domain ORDER BY count DESC, domain LIMIT ?`,
      DELIVERY_WORK,
      fromMs,
      untilMs,
      rows,
      domains,
    ),
);

/** Makes mail due now that is deferred to a time in the span; returns the number of messages. */
export const bringForwardOperation = operation(
  'delivery.bringForward',
  'write',
  (tx, { seqs, fromMs, untilMs, nowMs }: DeferredSpan & { seqs: number[]; nowMs: number }) => {
    const chosen = rowset(
      tx,
      'chosen',
      { seq: 'int' },
      seqs.map((seq) => ({ seq })),
    );
    return tx.run(
      `UPDATE work SET due = ? WHERE seq IN (SELECT seq FROM work
         WHERE ${PUT_OFF} AND due > ? AND seq IN (SELECT chosen.seq FROM ${chosen.sql}) ORDER BY seq ${skipLocked(tx)})`,
      nowMs,
      DELIVERY_WORK,
      fromMs,
      untilMs,
      nowMs,
      ...chosen.params,
    );
  },
);

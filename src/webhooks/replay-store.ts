/**
 * The rows of a replay: the events of the log in a period, the events that already wait for the endpoint, and the work that sends the
 * selected events again. The log is only read, and only the parts that may overlap the period. Selected events are parked and enter
 * through the endpoint's lane as capacity allows, so a long replay delays nothing else.
 */
import type { Mode } from '../base/mode.ts';
import {
  type EventPlace,
  type EventType,
  logOrder,
  rangesOfTime,
  type SeqRange,
  WEBHOOK_WORK,
} from '../events/events.ts';
import { currentTime, operation } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { clockOffsetOf, clockOffsetSql, enqueue, HELD, LEASE_MS } from '../work/work.ts';
import { assignTurns } from './turns.ts';

/** Returns the parts of the log that may have events of a period; Unix ms, both inclusive. */
export const replayRangesOperation = operation(
  'webhooks.replayRanges',
  'read',
  (tx, time: { mode: Mode; sinceMs: number; untilMs: number }): Promise<SeqRange[]> => rangesOfTime(tx, time),
);

export interface ReplaySegment {
  accountId: string;
  mode: Mode;
  webhookId: string;
  /** Unix ms, both inclusive. */
  sinceMs: number;
  untilMs: number;
  eventTypes: EventType[];
  range: SeqRange;
  /** Up to `scan` events of the range are read, strictly after this one. */
  after: EventPlace | null;
  scan: number;
}

export interface ReplayChoice {
  /** The matching events, by number. */
  chosen: { seq: number }[];
  /** The last event that was read; null at the end of the range. */
  last: EventPlace | null;
}

interface LoggedEvent extends EventPlace {
  type: EventType;
  at: number;
  /** For mail received by a route, otherwise null: the route, and whether webhooks subscribed to Inbound got the event. */
  routeId: string | null;
  toEvents: number | null;
}

/**
 * Whether the event may go to the endpoint: the endpoint of a route gets only mail of that route, other endpoints get only mail that the
 * route passes on.
 */
function mayHave(ownRouteId: string | null, { type, routeId, toEvents }: LoggedEvent): boolean {
  if (ownRouteId !== null) return routeId === ownRouteId;
  return type !== 'Inbound' || toEvents === 1;
}

/** Selects the events of a part of the log that are in the period, have one of the types, and may go to the endpoint. */
export const chooseForReplayOperation = operation(
  'webhooks.chooseForReplay',
  'read',
  async (tx, part: ReplaySegment): Promise<ReplayChoice> => {
    const endpoint = await tx.get<{ routeId: string | null }>(
      'SELECT inbound_route_id AS "routeId" FROM webhook WHERE id = ?',
      part.webhookId,
    );
    const ownRouteId = endpoint?.routeId ?? null;
    const after = part.after ?? { position: -1, seq: -1 };
    const log = logOrder(tx);
    const beyond = log.comparePlace('>', after);
    const rows = await tx.all<LoggedEvent>(
      `SELECT ${log.position} AS position, v.seq, v.type, v.at, i.route_id AS "routeId", i.to_events AS "toEvents"
       FROM event v LEFT JOIN inbound_message i ON v.type = 'Inbound' AND i.id = v.message_id
       WHERE v.account_id = ? AND v.mode = ? AND v.seq >= ? AND v.seq <= ? AND ${beyond.sql}
       ORDER BY ${log.order('ASC')} LIMIT ?`,
      part.accountId,
      part.mode,
      part.range.from,
      part.range.to,
      ...beyond.params,
      part.scan,
    );
    const wanted = new Set(part.eventTypes);
    const chosen = rows.filter(
      (one) => one.at >= part.sinceMs && one.at <= part.untilMs && wanted.has(one.type) && mayHave(ownRouteId, one),
    );
    const last = rows.length < part.scan ? undefined : rows.at(-1);
    return {
      chosen: chosen.map(({ seq }) => ({ seq })),
      last: last === undefined ? null : { position: last.position, seq: last.seq },
    };
  },
);

/** An event whose attempt failed and that waits for the next one. */
export interface WaitingRetry {
  /** The number of its work row. */
  seq: number;
  eventSeq: number;
  deliveryId: string;
}

export interface QueuedEvents {
  /** The numbers of events that need no replay: they are due, being sent, parked, or held back. */
  active: number[];
  retries: WaitingRetry[];
}

export interface QueuedSearch {
  webhookId: string;
  /** Retries of events outside this range are not returned. */
  range: SeqRange;
  /** The most active events to return. */
  limit: number;
  nowMs: number;
}

/** Leases end within this time. */
const LEASED_FOR_MS = 2 * LEASE_MS;

interface QueuedRow {
  seq: number;
  ref: number;
  isRetry: number;
}

/**
 * Returns the queued events of an endpoint. No index of work contains the endpoint of all rows. Retries are found by their time, which
 * their records repeat, and the other rows among those that are due or leased.
 */
export const queuedOperation = operation(
  'webhooks.queued',
  'search',
  async (tx, { webhookId, range, limit, nowMs }: QueuedSearch): Promise<QueuedEvents> => {
    const endpoint = await tx.get<{ offset: number }>(
      `SELECT ${clockOffsetSql('w')} AS "offset" FROM webhook w WHERE w.id = ?`,
      webhookId,
    );
    const now = currentTime(tx, nowMs);
    // One statement, because rows change their state at any time.
    const rows = await tx.all<QueuedRow>(
      `SELECT active.seq, active.ref, 0 AS "isRetry" FROM (
         SELECT seq, ref FROM work WHERE kind = ? AND lane = ? AND held = ${HELD.parked}
         UNION ALL SELECT seq, ref FROM work WHERE kind = ? AND subject = ? AND turn IS NOT NULL AND held = ${HELD.behind}
         UNION ALL SELECT seq, ref FROM work WHERE kind = ? AND held = ${HELD.no} AND due <= ${now.sql} + CAST(? AS BIGINT)
           AND subject = ? AND (leased > 0 OR crashes > 0 OR due <= ${now.sql}) LIMIT ?) AS active
       UNION ALL SELECT w.seq, w.ref, 1 AS "isRetry"
       FROM (SELECT DISTINCT next_attempt_at - CAST(? AS BIGINT) AS due FROM webhook_delivery
             WHERE webhook_id = ? AND status = 'pending') AS retry
         CROSS JOIN work w
       WHERE w.kind = ? AND w.held = ${HELD.no} AND w.due = retry.due AND w.due > ${now.sql} AND w.leased = 0 AND w.subject = ?
         AND w.ref >= ? AND w.ref <= ?`,
      WEBHOOK_WORK,
      webhookId,
      WEBHOOK_WORK,
      webhookId,
      WEBHOOK_WORK,
      ...now.params,
      LEASED_FOR_MS,
      webhookId,
      ...now.params,
      limit,
      endpoint?.offset ?? 0,
      webhookId,
      WEBHOOK_WORK,
      ...now.params,
      webhookId,
      range.from,
      range.to,
    );
    // With the time, the index of pending records is used.
    const records = await tx.all<{ id: string; eventSeq: number }>(
      `SELECT id, event_seq AS "eventSeq" FROM webhook_delivery
       WHERE webhook_id = ? AND status = 'pending' AND next_attempt_at > 0 AND event_seq >= ? AND event_seq <= ?`,
      webhookId,
      range.from,
      range.to,
    );
    const idOf = new Map(records.map((record) => [record.eventSeq, record.id]));
    const active: number[] = [];
    const retries: WaitingRetry[] = [];
    for (const { seq, ref, isRetry } of rows) {
      const deliveryId = isRetry === 1 ? idOf.get(ref) : undefined;
      // A retry without a pending record has been sent in the meantime.
      if (deliveryId === undefined) active.push(ref);
      else retries.push({ seq, eventSeq: ref, deliveryId });
    }
    return { active, retries };
  },
);

export interface Replayed {
  accountId: string;
  mode: Mode;
  webhookId: string;
  seqs: number[];
  nowMs: number;
}

/** Parks these events for the endpoint; returns their number. */
export const replayOperation = operation(
  'webhooks.replay',
  'write',
  async (tx, { accountId, mode, webhookId, seqs, nowMs }: Replayed): Promise<number> => {
    const own = { kind: WEBHOOK_WORK, accountId, mode, subject: webhookId, lane: webhookId, dueMs: nowMs };
    const rows = seqs.map((ref) => ({ ...own, ref, isParked: true }));
    const queued = await enqueue(tx, rows);
    await assignTurns(tx, webhookId, queued);
    return queued.length;
  },
);

export interface BroughtForward {
  accountId: string;
  mode: Mode;
  webhookId: string;
  retries: WaitingRetry[];
  nowMs: number;
}

/** Parks these retries, so that they are sent as soon as the lane has capacity; returns the number of those that still waited. */
export const bringForwardOperation = operation(
  'webhooks.bringForward',
  'write',
  async (tx, { accountId, mode, webhookId, retries, nowMs }: BroughtForward): Promise<number> => {
    const offsetMs = await clockOffsetOf(tx, { accountId, mode });
    const now = currentTime(tx, nowMs);
    const waiting = rowset(
      tx,
      'waiting',
      { seq: 'int' },
      retries.toSorted((a, b) => a.seq - b.seq).map(({ seq }) => ({ seq })),
    );
    const moved = await tx.all<{ seq: number }>(
      `UPDATE work SET held = ${HELD.parked}, due = ? WHERE seq IN (SELECT waiting.seq FROM ${waiting.sql})
         AND subject = ? AND held = ${HELD.no} AND leased = 0 AND due > ${now.sql} RETURNING seq`,
      nowMs,
      ...waiting.params,
      webhookId,
      ...now.params,
    );
    const seqs = new Set(moved.map((row) => row.seq));
    const records = rowset(
      tx,
      'moved',
      { id: 'text' },
      retries.filter(({ seq }) => seqs.has(seq)).map(({ deliveryId }) => ({ id: deliveryId })),
    );
    await tx.run(
      `UPDATE webhook_delivery SET next_attempt_at = ?, updated_at = ?
       WHERE webhook_id = ? AND id IN (SELECT moved.id FROM ${records.sql}) AND status = 'pending'`,
      nowMs + offsetMs,
      nowMs,
      webhookId,
      ...records.params,
    );
    return moved.length;
  },
);

/**
 * The rows of a replay: already waiting events, the events of the log in a period, and the work that sends them again. The log is only
 * read, and only the parts that may overlap the period. Selected events are parked and enter through the endpoint's lane as capacity
 * allows, so a long replay delays nothing else.
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
import { operation } from '../storage/operation.ts';
import { enqueue, HELD } from '../work/work.ts';
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

/** Returns the numbers of up to `limit` events that are parked or held back for an endpoint. */
export const setAsideOperation = operation(
  'webhooks.setAside',
  'read',
  async (tx, { webhookId, limit }: { webhookId: string; limit: number }): Promise<number[]> => {
    const rows = await tx.all<{ ref: number }>(
      `SELECT ref FROM work WHERE kind = ? AND lane = ? AND held = 1
       UNION ALL SELECT ref FROM work WHERE kind = ? AND subject = ? AND turn IS NOT NULL AND held = ${HELD.behind} LIMIT ?`,
      WEBHOOK_WORK,
      webhookId,
      WEBHOOK_WORK,
      webhookId,
      limit,
    );
    return rows.map((row) => row.ref);
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

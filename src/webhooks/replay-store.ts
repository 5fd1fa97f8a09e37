/**
 * The rows of a replay: what waits already, which events of the log fall into a time, and the work of sending them again. The log
 * is only read, and no more of it than what may hold the time; what is chosen is set aside and enters through the
 * endpoint's lane as room allows, so that a long replay stands in nobody's way.
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
import { enqueue } from '../work/work.ts';

/** Parts of the log that may hold events of a time; Unix ms, both inclusive. */
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
  /** Up to `scan` events of the range are looked at, strictly behind this one. */
  after: EventPlace | null;
  scan: number;
}

export interface ReplayChoice {
  /** The events that are wanted, by their numbers. */
  chosen: { seq: number }[];
  /** The last event looked at; null at the end of the range. */
  last: EventPlace | null;
}

interface LoggedEvent extends EventPlace {
  type: EventType;
  at: number;
  /** Of mail that a route took, else null: the route, and whether webhooks that subscribe to Inbound got the event. */
  routeId: string | null;
  toEvents: number | null;
}

/** Whether the event may go to the endpoint: to that of a route nothing but its own mail, to others none that a route kept from them. */
function mayHave(ownRouteId: string | null, { type, routeId, toEvents }: LoggedEvent): boolean {
  if (ownRouteId !== null) return routeId === ownRouteId;
  return type !== 'Inbound' || toEvents === 1;
}

/** The events of a part of the log that fall into the time, are of the types asked for and may go to the endpoint. */
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
    const beyond = log.beside('>', after);
    const rows = await tx.all<LoggedEvent>(
      `SELECT ${log.position} AS position, v.seq, v.type, v.at, i.route_id AS "routeId", i.to_events AS "toEvents"
       FROM event v LEFT JOIN inbound_message i ON v.type = 'Inbound' AND i.id = v.message_id
       WHERE v.account_id = ? AND v.mode = ? AND v.seq >= ? AND v.seq <= ? AND ${beyond.sql}
       ORDER BY ${log.order('ASC')} LIMIT ?`,
      ...[part.accountId, part.mode, part.range.from, part.range.to, ...beyond.params, part.scan],
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

/** Numbers of the events that are set aside for an endpoint, up to `limit` of them. */
export const setAsideOperation = operation(
  'webhooks.setAside',
  'read',
  async (tx, { webhookId, limit }: { webhookId: string; limit: number }): Promise<number[]> => {
    const rows = await tx.all<{ ref: number }>(
      'SELECT ref FROM work WHERE kind = ? AND lane = ? AND held = 1 LIMIT ?',
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

/** Sets these events aside for the endpoint; answers how many. */
export const replayOperation = operation(
  'webhooks.replay',
  'write',
  async (tx, { accountId, mode, webhookId, seqs, nowMs }: Replayed): Promise<number> => {
    const own = { kind: WEBHOOK_WORK, accountId, mode, subject: webhookId, lane: webhookId, dueMs: nowMs };
    const rows = seqs.map((ref) => ({ ...own, ref, isHeld: true }));
    return (await enqueue(tx, rows)).length;
  },
);

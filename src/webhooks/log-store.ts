/**
 * The record of deliveries as the API reads it, and the two ways to have events sent again: one delivery by hand, or all
 * events of a time. What is replayed is set aside at once and enters through the endpoint's lane as room allows, so that
 * a long replay stands in nobody's way.
 */
import type { Mode } from '../base/mode.ts';
import { EVENT_TYPES, type EventType, WEBHOOK_WORK } from '../events/events.ts';
import { enqueue, enqueueHeld, heldAheadOf } from '../queue/queue.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import type { DeliveryRow } from './endpoints.ts';
import { type EndpointKey, findEndpoint } from './store.ts';
import { readEventTexts } from './work-store.ts';

const SHOWN =
  'id, event_seq, event_id, event_type, status, attempts, response_status, response_start, error, latency_ms, next_attempt_at, created_at, url';

/** Newest event first; undefined when the account has no such endpoint. */
export const listDeliveriesOperation = operation(
  'webhooks.deliveries',
  'read',
  async (tx, page: EndpointKey & { before: string | null; limit: number }): Promise<DeliveryRow[] | undefined> => {
    if (!(await findEndpoint(tx, page))) return undefined;
    const rows = await tx.all<StoredRow>(
      `SELECT ${SHOWN} FROM webhook_delivery WHERE webhook_id = ? ${page.before === null ? '' : 'AND id < ?'}
       ORDER BY id DESC LIMIT ?`,
      page.id,
      ...(page.before === null ? [] : [page.before]),
      page.limit,
    );
    return withBodies(tx, rows);
  },
);

type StoredRow = Omit<DeliveryRow, 'body'>;

async function withBodies(tx: Transaction, rows: readonly StoredRow[]): Promise<DeliveryRow[]> {
  const events = await readEventTexts(tx, [...new Set(rows.map((row) => row.event_seq))]);
  return rows.map((row) => ({ ...row, body: events.get(row.event_seq)?.body ?? null }));
}

export type RetryAnswer =
  | { found: false; missing: 'endpoint' | 'delivery' }
  | { found: true; enabled: boolean; delivery: DeliveryRow };

/**
 * Sends one delivery again, now: a settled one starts the schedule anew, one that waits for its next attempt is moved
 * to now, and one that is under way stays as it is. A disabled endpoint is left alone.
 */
export const retryDeliveryOperation = operation(
  'webhooks.retry',
  'write',
  async (tx, retry: EndpointKey & { deliveryId: string; nowMs: number }): Promise<RetryAnswer> => {
    const endpoint = await findEndpoint(tx, retry);
    if (!endpoint) return { found: false, missing: 'endpoint' };
    const delivery = await readDelivery(tx, retry);
    if (!delivery) return { found: false, missing: 'delivery' };
    if (endpoint.enabled === 0) return { found: true, enabled: false, delivery };
    const aheadMs = await heldAheadOf(tx, retry);
    if (delivery.status === 'pending') await hasten(tx, { ...retry, delivery, aheadMs });
    else {
      await enqueue(tx, {
        kind: WEBHOOK_WORK,
        accountId: retry.accountId,
        mode: retry.mode,
        subject: retry.id,
        ref: delivery.event_seq,
        lane: retry.id,
        dueMs: retry.nowMs,
        leaseMs: null,
      });
    }
    await tx.run(
      "UPDATE webhook_delivery SET status = 'pending', next_attempt_at = ?, updated_at = ? WHERE webhook_id = ? AND id = ?",
      retry.nowMs + aheadMs,
      retry.nowMs,
      retry.id,
      retry.deliveryId,
    );
    return { found: true, enabled: true, delivery: (await readDelivery(tx, retry)) as DeliveryRow };
  },
);

async function readDelivery(
  tx: Transaction,
  key: { id: string; deliveryId: string },
): Promise<DeliveryRow | undefined> {
  const row = await tx.get<StoredRow>(
    `SELECT ${SHOWN} FROM webhook_delivery WHERE webhook_id = ? AND id = ? ${locked(tx)}`,
    key.id,
    key.deliveryId,
  );
  return row && (await withBodies(tx, [row]))[0];
}

/** The waiting row is found by its time, which the record repeats; a row that is held or leased is on its way already. */
async function hasten(
  tx: Transaction,
  retry: EndpointKey & { delivery: DeliveryRow; nowMs: number; aheadMs: number },
): Promise<void> {
  await tx.run(
    `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND due = ? AND leased = 0 AND subject = ? AND ref = ?`,
    retry.nowMs,
    WEBHOOK_WORK,
    (retry.delivery.next_attempt_at ?? 0) - retry.aheadMs,
    retry.id,
    retry.delivery.event_seq,
  );
}

export interface ReplayPart {
  accountId: string;
  mode: Mode;
  webhookId: string;
  /** Unix ms, both inclusive. */
  sinceMs: number;
  untilMs: number;
  eventTypes: EventType[];
  /** Events with higher numbers than this, up to `scan` of them. */
  after: number;
  scan: number;
  nowMs: number;
}

export interface ReplayAnswer {
  queued: number;
  /** Number of the last event looked at; null at the end of the log. */
  last: number | null;
}

/** Queues the events of a stretch of the log that fall into the time asked for. */
export const replayOperation = operation(
  'webhooks.replay',
  'write',
  async (tx, part: ReplayPart): Promise<ReplayAnswer> => {
    // On a shared database the log is ordered by positions: the place of the last event looked at is found by its number.
    const beyond =
      tx.dialect === 'postgres'
        ? '(position, seq) > (coalesce((SELECT position FROM event WHERE seq = ?), -1), ?) ORDER BY position, seq'
        : 'seq > ? ORDER BY seq';
    const stretch = await tx.all<{ seq: number; type: EventType; at: number }>(
      `SELECT seq, type, at FROM event WHERE account_id = ? AND mode = ? AND ${beyond} LIMIT ?`,
      part.accountId,
      part.mode,
      ...(tx.dialect === 'postgres' ? [part.after, part.after] : [part.after]),
      part.scan,
    );
    const wanted = new Set<EventType>(part.eventTypes.length > 0 ? part.eventTypes : EVENT_TYPES);
    const chosen = stretch.filter(({ at, type }) => at >= part.sinceMs && at <= part.untilMs && wanted.has(type));
    const queued = await enqueueHeld(
      tx,
      chosen.map((event) => ({
        kind: WEBHOOK_WORK,
        accountId: part.accountId,
        mode: part.mode,
        subject: part.webhookId,
        ref: event.seq,
        lane: part.webhookId,
        dueMs: part.nowMs,
        leaseMs: null,
      })),
    );
    return { queued, last: stretch.length < part.scan ? null : stretch.at(-1)!.seq };
  },
);

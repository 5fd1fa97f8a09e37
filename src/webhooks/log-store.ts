/** Reads the delivery records for the API, and resends single deliveries. */
import { change } from '../audit/audit.ts';
import { type EventType, fittingOf, WEBHOOK_WORK } from '../events/events.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { clockOffsetOf, enqueue } from '../work/work.ts';
import { readEventTexts } from './claim.ts';
import type { DeliveryRow, EndpointRow } from './endpoints.ts';
import { readResendPayloads } from './resend-payload.ts';
import { type EndpointKey, findEndpoint } from './store.ts';
import { assignTurns } from './turns.ts';

const SHOWN =
  'id, event_seq, event_id, event_type, status, attempts, response_status, response_start, error, latency_ms, next_attempt_at, created_at, url, attempt_log';

/** Size of the attempts, and of the inbound mail that the delivery is about. */
const SIZE = `coalesce(length(attempt_log), 0) + coalesce(CASE event_type WHEN 'Inbound' THEN (SELECT octet_length(i.detail) FROM event v JOIN inbound_message i ON i.id = v.message_id
  WHERE v.seq = event_seq) END, 0) AS "mailBytes"`;

/** Which deliveries of an endpoint to list; null does not filter. */
export interface DeliveryFilter {
  eventType: EventType | null;
  status: DeliveryRow['status'] | null;
  /** Last id of the previous page. */
  before: string | null;
  limit: number;
}

/** A page with a filter passes over at most this number of deliveries. */
const SEARCHED_AT_MOST = 20_000;

export interface DeliveryPage {
  rows: DeliveryRow[];
  /** Where the next page starts if this one is shorter than its limit although there may be more deliveries. */
  stoppedAt: string | null;
}

/** Lists deliveries, newest event first; undefined if the account does not have the endpoint. */
async function listDeliveries(tx: Transaction, page: EndpointKey & DeliveryFilter): Promise<DeliveryPage | undefined> {
  const endpoint = await findEndpoint(tx, page);
  if (!endpoint) return undefined;
  const lastId = await lastSearched(tx, page);
  const conditions = Object.entries({
    'id <': page.before,
    'event_type =': page.eventType,
    'status =': page.status,
    'id >=': lastId,
  });
  const given = conditions.filter((pair): pair is [string, EventType] => pair[1] !== null);
  const rows = await tx.all<StoredRow & { mailBytes: number | null }>(
    `SELECT ${SHOWN}, ${SIZE} FROM webhook_delivery
       WHERE ${['webhook_id = ?', ...given.map(([condition]) => `${condition} ?`)].join(' AND ')} ORDER BY id DESC LIMIT ?`,
    page.id,
    ...given.map(([, value]) => value),
    page.limit,
  );
  const fitting = fittingOf(rows).map(({ mailBytes: _, ...row }) => row);
  const stoppedAt = fitting.length < rows.length ? fitting.at(-1)!.id : rows.length < page.limit ? lastId : null;
  return { rows: await withBodies(tx, fitting, endpoint), stoppedAt };
}

export const listDeliveriesOperation = operation('webhooks.deliveries', 'read', listDeliveries);

/** Lists the deliveries of pages with a filter, which may pass over many others. */
export const searchDeliveriesOperation = operation('webhooks.searchDeliveries', 'search', listDeliveries);

/** Returns the id of the last delivery that a page with a filter reads; null if it reads all. */
async function lastSearched(tx: Transaction, page: EndpointKey & DeliveryFilter): Promise<string | null> {
  if (page.eventType === null && page.status === null) return null;
  const row = await tx.get<{ id: string }>(
    `SELECT id FROM webhook_delivery WHERE webhook_id = ? ${page.before === null ? '' : 'AND id < ?'}
     ORDER BY id DESC LIMIT 1 OFFSET ?`,
    page.id,
    ...(page.before === null ? [] : [page.before]),
    SEARCHED_AT_MOST - 1,
  );
  return row?.id ?? null;
}

type StoredRow = Omit<DeliveryRow, 'body' | 'isBatched'>;

async function withBodies(
  tx: Transaction,
  rows: readonly StoredRow[],
  { format, max_batch }: Pick<EndpointRow, 'format' | 'max_batch'>,
): Promise<DeliveryRow[]> {
  const seqs = [...new Set(rows.map((row) => row.event_seq))];
  const events: ReadonlyMap<number, { body: string | null }> =
    format === 'resend' ? await readResendPayloads(tx, seqs) : await readEventTexts(tx, seqs, { withMail: true });
  return rows.map((row) => ({
    ...row,
    body: events.get(row.event_seq)?.body ?? null,
    isBatched: max_batch > 1,
  }));
}

export type RetryAnswer =
  | { found: false; missing: 'endpoint' | 'delivery' }
  | { found: true; enabled: boolean; delivery: DeliveryRow };

/**
 * Resends one delivery now: a settled one restarts the schedule, one that waits for its next attempt is moved to now, and one in flight
 * stays unchanged. Does nothing for a disabled endpoint.
 */
export const retryDeliveryOperation = change(
  'webhooks.retry',
  async (tx, retry: EndpointKey & { deliveryId: string; nowMs: number }): Promise<RetryAnswer> => {
    const endpoint = await findEndpoint(tx, retry);
    if (!endpoint) return { found: false, missing: 'endpoint' };
    const delivery = await readDelivery(tx, retry, endpoint);
    if (!delivery) return { found: false, missing: 'delivery' };
    if (endpoint.enabled === 0) return { found: true, enabled: false, delivery };
    const clockOffsetMs = await clockOffsetOf(tx, retry);
    if (delivery.status === 'pending') await hasten(tx, { ...retry, delivery, clockOffsetMs });
    else {
      const { accountId, mode, id, nowMs } = retry;
      const kind = WEBHOOK_WORK;
      const row = { kind, accountId, mode, subject: id, ref: delivery.event_seq, lane: id, dueMs: nowMs };
      await assignTurns(tx, id, await enqueue(tx, [row]));
    }
    await tx.run(
      "UPDATE webhook_delivery SET status = 'pending', next_attempt_at = ?, updated_at = ? WHERE webhook_id = ? AND id = ?",
      retry.nowMs + clockOffsetMs,
      retry.nowMs,
      retry.id,
      retry.deliveryId,
    );
    return { found: true, enabled: true, delivery: (await readDelivery(tx, retry, endpoint)) as DeliveryRow };
  },
  {
    action: 'webhook.retry-delivery',
    resourceId: (retry) => retry.id,
    did: (retry, answer) => (answer.found && answer.enabled ? { deliveryId: retry.deliveryId } : undefined),
  },
);

async function readDelivery(
  tx: Transaction,
  key: { id: string; deliveryId: string },
  endpoint: EndpointRow,
): Promise<DeliveryRow | undefined> {
  const row = await tx.get<StoredRow>(
    `SELECT ${SHOWN} FROM webhook_delivery WHERE webhook_id = ? AND id = ? ${locked(tx)}`,
    key.id,
    key.deliveryId,
  );
  return row && (await withBodies(tx, [row], endpoint))[0];
}

/** Finds the waiting row by its time, which the record repeats; a row that is held or leased is already being sent. */
async function hasten(
  tx: Transaction,
  retry: EndpointKey & { delivery: DeliveryRow; nowMs: number; clockOffsetMs: number },
): Promise<void> {
  await tx.run(
    `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND due = ? AND leased = 0 AND subject = ? AND ref = ?`,
    retry.nowMs,
    WEBHOOK_WORK,
    (retry.delivery.next_attempt_at ?? 0) - retry.clockOffsetMs,
    retry.id,
    retry.delivery.event_seq,
  );
}

/** Removes old delivery records. Pending deliveries stay, except those of removed endpoints, which a crash during the removal can leave. */
export const removeWebhookDeliveriesOperation = operation(
  'webhooks.removeDeliveries',
  'write',
  async (tx, batch: { beforeMs: number; limit: number }): Promise<number> => {
    const removed = await tx.run(
      `DELETE FROM webhook_delivery WHERE (webhook_id, id) IN
         (SELECT webhook_id, id FROM webhook_delivery WHERE status <> 'pending' AND updated_at <= ? LIMIT ?)`,
      batch.beforeMs,
      batch.limit,
    );
    return removed === batch.limit ? removed : removed + (await removeOrphans(tx, batch.limit - removed));
  },
);

/** Removes pending records of removed endpoints. The endpoints are found by stepping through the index from one to the next. */
async function removeOrphans(tx: Transaction, limit: number): Promise<number> {
  return tx.run(
    `WITH RECURSIVE waiting (id) AS (
       SELECT min(webhook_id) FROM webhook_delivery WHERE status = 'pending'
       UNION ALL
       SELECT (SELECT min(d.webhook_id) FROM webhook_delivery d WHERE d.status = 'pending' AND d.webhook_id > waiting.id)
       FROM waiting WHERE waiting.id IS NOT NULL)
     DELETE FROM webhook_delivery WHERE (webhook_id, id) IN
       (SELECT d.webhook_id, d.id FROM waiting JOIN webhook_delivery d ON d.webhook_id = waiting.id AND d.status = 'pending'
        WHERE NOT EXISTS (SELECT 1 FROM webhook w WHERE w.id = waiting.id) LIMIT ?)`,
    limit,
  );
}

/** Reads the delivery records for the API, and resends single deliveries. */
import { change } from '../audit/audit.ts';
import { fittingOf, WEBHOOK_WORK } from '../events/events.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { clockOffsetOf, enqueue } from '../work/work.ts';
import { readEventTexts } from './claim.ts';
import type { DeliveryRow, EndpointRow } from './endpoints.ts';
import { readResendPayloads } from './resend-payload.ts';
import { type EndpointKey, findEndpoint } from './store.ts';
import { assignTurns } from './turns.ts';

const SHOWN =
  'id, event_seq, event_id, event_type, status, attempts, response_status, response_start, error, latency_ms, next_attempt_at, created_at, url';

/** Size of the inbound mail that the delivery is about, otherwise null. */
const MAIL_BYTES = `CASE event_type WHEN 'Inbound' THEN (SELECT octet_length(i.detail) FROM event v JOIN inbound_message i ON i.id = v.message_id
  WHERE v.seq = event_seq) END AS "mailBytes"`;

export interface DeliveryPage {
  rows: DeliveryRow[];
  /** The last of `rows` if the next one is too large for the page. */
  stoppedAt: string | null;
}

/** Lists deliveries, newest event first; undefined if the account does not have the endpoint. */
export const listDeliveriesOperation = operation(
  'webhooks.deliveries',
  'read',
  async (tx, page: EndpointKey & { before: string | null; limit: number }): Promise<DeliveryPage | undefined> => {
    const endpoint = await findEndpoint(tx, page);
    if (!endpoint) return undefined;
    const rows = await tx.all<StoredRow & { mailBytes: number | null }>(
      `SELECT ${SHOWN}, ${MAIL_BYTES} FROM webhook_delivery WHERE webhook_id = ? ${page.before === null ? '' : 'AND id < ?'}
       ORDER BY id DESC LIMIT ?`,
      page.id,
      ...(page.before === null ? [] : [page.before]),
      page.limit,
    );
    const fitting = fittingOf(rows).map(({ mailBytes: _, ...row }) => row);
    const stoppedAt = fitting.length < rows.length ? fitting.at(-1)!.id : null;
    return { rows: await withBodies(tx, fitting, endpoint), stoppedAt };
  },
);

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

/** Removes old delivery records; pending deliveries stay. */
export const removeWebhookDeliveriesOperation = operation(
  'webhooks.removeDeliveries',
  'write',
  (tx, batch: { beforeMs: number; limit: number }): Promise<number> | number =>
    tx.run(
      `DELETE FROM webhook_delivery WHERE (webhook_id, id) IN
         (SELECT webhook_id, id FROM webhook_delivery WHERE status <> 'pending' AND updated_at <= ? LIMIT ?)`,
      batch.beforeMs,
      batch.limit,
    ),
);

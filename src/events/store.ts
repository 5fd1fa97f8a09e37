/**
 * Appends events, and with each the work of telling the account's webhooks: one row per endpoint that wants this type.
 * Fan-out happens here, inside the transaction of the event, and not in a later pass over the log: there is no moment
 * in which an event exists and its deliveries do not, and endpoints are independent of each other from the start.
 */
import { idAt } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { SqlValue, Transaction } from '../storage/operation.ts';
import { clockOffsetOf, enqueue, NEW_WORK } from '../work/work.ts';
import type { EventType } from './event.ts';

export interface NewEvent {
  /** Its time part becomes that of `at`, so that ids, and those of deliveries, sort as events do. */
  id: string;
  type: EventType;
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Unix ms; in the sandbox by the account's clock. */
  at: number;
  detail: Record<string, unknown>;
}

/** The kind of work rows that carry an event to an endpoint: subject is the endpoint's id, ref the event's number. */
export const WEBHOOK_WORK = 'webhook';

export const EVENT_COLUMNS = 'account_id, mode, id, type, message_id, at, detail';

/** Of EVENT_COLUMNS. */
export function eventValues(event: NewEvent): SqlValue[] {
  return [
    event.accountId,
    event.mode,
    idAt(event.id, event.at),
    event.type,
    event.messageId,
    event.at,
    JSON.stringify(event.detail),
  ];
}

/** Endpoints that want a type of event: account, mode, type. Whether there are several is all that is asked. */
export const FIRST_TWO =
  'SELECT webhook_id FROM webhook_subscription WHERE account_id = ? AND mode = ? AND event_type = ? LIMIT 2';

/** Event's number, due time; account, mode, type. */
export const ENQUEUE_FOR_ALL = `INSERT INTO work (${NEW_WORK})
  SELECT '${WEBHOOK_WORK}', account_id, mode, webhook_id, CAST(? AS BIGINT), webhook_id, CAST(? AS BIGINT), 0, 0, 0, 0, 0
  FROM webhook_subscription WHERE account_id = ? AND mode = ? AND event_type = ?`;

/** Writes the event and its webhook deliveries; answers the event's number in the log. */
export async function appendEvent(tx: Transaction, event: NewEvent): Promise<number> {
  const seq = await tx.insert(
    `INSERT INTO event (${EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ...eventValues(event),
  );
  await enqueueDeliveries(tx, event, seq);
  return seq;
}

/** However many endpoints the account has, only those that want this type are looked at. */
async function enqueueDeliveries(tx: Transaction, event: NewEvent, seq: number): Promise<void> {
  const place = [event.accountId, event.mode, event.type];
  const wanted = await tx.all<{ webhook_id: string }>(FIRST_TWO, ...place);
  const [one] = wanted;
  if (one === undefined) return;
  const dueMs = event.at - (await clockOffsetOf(tx, event));
  if (wanted.length > 1) {
    await tx.run(ENQUEUE_FOR_ALL, seq, dueMs, ...place);
    return;
  }
  await enqueue(tx, {
    kind: WEBHOOK_WORK,
    accountId: event.accountId,
    mode: event.mode,
    subject: one.webhook_id,
    ref: seq,
    lane: one.webhook_id,
    dueMs,
    leaseMs: null,
  });
}

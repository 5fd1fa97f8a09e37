/**
 * Appends events, and with each the work of telling the account's webhooks: one row per endpoint that wants this type.
 * Fan-out happens here, inside the transaction of the event, and not in a later pass over the log: there is no moment
 * in which an event exists and its deliveries do not, and endpoints are independent of each other from the start.
 */
import type { Mode } from '../base/mode.ts';
import { enqueue } from '../queue/queue.ts';
import type { Transaction } from '../storage/operation.ts';
import type { EventType } from './event.ts';

export interface NewEvent {
  id: string;
  type: EventType;
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Unix ms. */
  at: number;
  detail: Record<string, unknown>;
}

/** The kind of work rows that carry an event to an endpoint: subject is the endpoint's id, ref the event's number. */
export const WEBHOOK_WORK = 'webhook';

/** Writes the event and its webhook deliveries; answers the event's number in the log. */
export async function appendEvent(tx: Transaction, event: NewEvent): Promise<number> {
  const seq = await tx.insert(
    'INSERT INTO event (account_id, mode, id, type, message_id, at, detail) VALUES (?, ?, ?, ?, ?, ?, ?)',
    event.accountId,
    event.mode,
    event.id,
    event.type,
    event.messageId,
    event.at,
    JSON.stringify(event.detail),
  );
  const endpoints = await tx.all<{ id: string; events: string }>(
    'SELECT id, events FROM webhook WHERE account_id = ? AND mode = ? AND enabled = 1',
    event.accountId,
    event.mode,
  );
  for (const endpoint of endpoints) {
    if (!(JSON.parse(endpoint.events) as string[]).includes(event.type)) continue;
    await enqueue(tx, {
      kind: WEBHOOK_WORK,
      accountId: event.accountId,
      mode: event.mode,
      subject: endpoint.id,
      ref: seq,
      lane: endpoint.id,
      dueMs: event.at,
      leased: false,
    });
  }
  return seq;
}

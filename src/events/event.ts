/**
 * The event as the API and the webhooks show it (contract: section 6). What an event repeats of its message (sender,
 * subject, tags) never changes, so that it is joined when the event is read and the body is the same at every retry.
 */
import { iso } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';

export const EVENT_TYPES = [
  'Send',
  'Delivery',
  'DeliveryDelay',
  'Bounce',
  'Complaint',
  'Reject',
  'Open',
  'Click',
  'Unsubscribe',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** An event joined with its message and email, as the stores read it. */
export interface EventRow {
  /** Where its transaction lies in the log; with `seq` the place of the event. */
  position?: number;
  seq: number;
  id: string;
  type: EventType;
  message_id: string;
  mode: Mode;
  at: number;
  /** JSON of the fields that belong to this type of event, such as `{"delivery":{…}}`. */
  detail: string;
  recipient: string;
  header_from: string;
  subject: string;
  /** JSON array. */
  tags: string;
  /** JSON object. */
  metadata: string;
}

/** The JSON body, as `GET /events` lists it and webhooks carry it. */
export function eventBody(row: EventRow): Record<string, unknown> {
  return {
    eventId: row.id,
    eventType: row.type,
    messageId: row.message_id,
    timestamp: iso(row.at),
    mode: row.mode,
    recipient: row.recipient,
    from: row.header_from,
    subject: row.subject,
    tags: JSON.parse(row.tags),
    metadata: JSON.parse(row.metadata),
    ...JSON.parse(row.detail),
  };
}

/**
 * The event as the API and webhooks return it: the common fields, and the fields of its type. Event fields copied from the message (sender,
 * subject, tags) never change, so they are joined on read and the body is the same on every retry.
 *
 * Appends events together with their webhook deliveries: one row per endpoint that is subscribed to the type. The fan-out is part of the
 * event's transaction, so an event never exists without its deliveries, and endpoints are independent of each other.
 */
import { iso } from '../base/clock.ts';
import { idAt } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import { insertMany, rowset, table, takeNumbers } from '../storage/rows.ts';
import { clockOffsetSql } from '../work/work.ts';

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
  'Inbound',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** The events that a share link of a message shows; opens and clicks are private to the recipient and the account. */
export const SHARED_EVENT_TYPES = [
  'Send',
  'Delivery',
  'DeliveryDelay',
  'Bounce',
  'Complaint',
  'Reject',
] as const satisfies readonly EventType[];

/** The field that only events of this type have; null if they have none. */
const DETAIL_FIELDS = {
  Send: null,
  Delivery: 'delivery',
  DeliveryDelay: 'deliveryDelay',
  Bounce: 'bounce',
  Complaint: 'complaint',
  Reject: 'reject',
  Open: 'open',
  Click: 'click',
  Unsubscribe: 'unsubscribe',
  Inbound: 'inbound',
} as const satisfies Record<EventType, string | null>;

/** Returns the names of the fields that only events of one of these types have. */
export function detailFieldsOf(types: readonly EventType[]): string[] {
  return types.flatMap((type) => DETAIL_FIELDS[type] ?? []);
}

/** An event joined with its message and email, as the stores read it. */
export interface EventRow {
  /** Position of its transaction in the log; with `seq` the place of the event. */
  position?: number;
  seq: number;
  id: string;
  type: EventType;
  message_id: string;
  mode: Mode;
  at: number;
  /** JSON of the fields that belong to this type of event, such as `{"delivery":{…}}`. */
  detail: string;
  /** Fields of the message; null for inbound mail, whose detail has them. */
  recipient: string | null;
  header_from: string | null;
  subject: string | null;
  header_message_id: string | null;
  /** JSON array. */
  tags: string | null;
  /** JSON object. */
  metadata: string | null;
  /** JSON of the submitter's DSN parameters; null for most messages. */
  dsn?: string | null;
}

/** Returns the JSON body that `GET /events` and webhooks contain. */
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
    headerMessageId: row.header_message_id,
    tags: JSON.parse(row.tags ?? '[]'),
    metadata: JSON.parse(row.metadata ?? '{}'),
    ...envidOf(row),
    ...detailOf(row),
  };
}

/** Fields of the event's type. Inbound mail has no row of `email`, so its Message-ID is in the detail. */
function detailOf({ type, detail }: EventRow): Record<string, unknown> {
  const fields = JSON.parse(detail) as Record<string, unknown>;
  if (type !== 'Inbound') return fields;
  const inbound = fields.inbound as { headerMessageId?: string | null } | undefined;
  return { headerMessageId: inbound?.headerMessageId ?? null, ...fields };
}

/** ENVID of MAIL, which identifies the message for an SMTP client (RFC 3461 §4.4). */
function envidOf({ dsn }: EventRow): { envid?: string } {
  if (dsn === null || dsn === undefined) return {};
  const { envid } = JSON.parse(dsn) as { envid?: string };
  return envid === undefined ? {} : { envid };
}

export const EVENT = table(
  'event',
  {
    seq: 'int',
    accountId: 'text',
    mode: 'text',
    id: 'text',
    type: 'text',
    messageId: 'text',
    at: 'int',
    detail: 'text',
  },
  { position: '(SELECT event_position())' },
);

export interface NewEvent {
  /** Its time part is set to `at`, so that ids of events and deliveries sort like events. */
  id: string;
  type: EventType;
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Unix ms; in the sandbox by the account's clock. */
  at: number;
  detail: Record<string, unknown>;
  /** Topics of subscriptions, if they differ from the type. */
  topics?: readonly string[];
}

/** Returns the topic that the endpoint of one inbound route subscribes to. */
export function inboundTopic(routeId: string): string {
  return `Inbound:${routeId}`;
}

/** The kind of work rows that carry an event to an endpoint: subject is the endpoint's id, ref the event's number. */
export const WEBHOOK_WORK = 'webhook';

/** SQL: whose events an ordered endpoint gets one after the other: the recipient of the message, or of the inbound mail. */
export function turnSql(event: string): string {
  return `coalesce((SELECT lower(m.recipient) FROM message m WHERE m.account_id = ${event}.account_id AND m.mode = ${event}.mode
    AND m.id = ${event}.message_id), (SELECT lower(i.recipient) FROM inbound_message i WHERE i.id = ${event}.message_id), ${event}.message_id)`;
}

/** Writes events and their webhook deliveries; `seqs` are their numbers in the log, if already assigned. */
export async function appendEvents(
  tx: Transaction,
  events: readonly NewEvent[],
  seqs?: readonly number[],
): Promise<void> {
  if (events.length === 0) return;
  const numbers = seqs ?? (await takeNumbers(tx, [EVENT, events.length]))[0]!;
  const rows = events.map((event, index) => ({
    seq: numbers[index]!,
    accountId: event.accountId,
    mode: event.mode,
    id: idAt(event.id, event.at),
    type: event.type,
    messageId: event.messageId,
    at: event.at,
    detail: JSON.stringify(event.detail),
  }));
  const wanted = rows.flatMap((row, index) =>
    (events[index]!.topics ?? [row.type]).map((topic) => ({ ...row, topic })),
  );
  const made = rowset(
    tx,
    'made',
    { seq: 'int', accountId: 'text', mode: 'text', topic: 'text', at: 'int', messageId: 'text' },
    wanted,
  );
  await Promise.all([
    insertMany(tx, EVENT, rows),
    // Work of an endpoint is in the order of its events.
    tx.run(
      `INSERT INTO work (kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held, turn)
       SELECT '${WEBHOOK_WORK}', made.account_id, made.mode, wanted.webhook_id, made.seq, wanted.webhook_id,
         made.at - ${clockOffsetSql('made')}, 0, 0, 0, 0, 0,
         CASE WHEN wanted.ordered = 1 THEN ${turnSql('made')} END
       FROM ${made.sql} JOIN webhook_subscription wanted ON wanted.account_id = made.account_id
         AND wanted.mode = made.mode AND wanted.event_type = made.topic
       ORDER BY made.seq`,
      ...made.params,
    ),
  ]);
}

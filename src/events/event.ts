/**
 * The event as the API and the webhooks show it (contract: section 6). What an event repeats of its message (sender, subject,
 * tags) never changes, so that it is joined when the event is read and the body is the same at every retry.
 *
 * Appends events, and with each the work of telling the account's webhooks: one row per endpoint that wants this type. Fan-out
 * happens here, inside the transaction of the event, and not in a later pass over the log: there is no moment in which an event
 * exists and its deliveries do not, and endpoints are independent of each other from the start.
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
  /** These of the message that it tells of; null for mail that came in, whose detail has them. */
  recipient: string | null;
  header_from: string | null;
  subject: string | null;
  /** JSON array. */
  tags: string | null;
  /** JSON object. */
  metadata: string | null;
  /** JSON of what the submitter asked of delivery reports; null for nearly all. */
  dsn?: string | null;
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
    tags: JSON.parse(row.tags ?? '[]'),
    metadata: JSON.parse(row.metadata ?? '{}'),
    ...envidOf(row),
    ...JSON.parse(row.detail),
  };
}

/** ENVID of MAIL, by which an SMTP client recognises its message (RFC 3461 §4.4). */
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
  /** Its time part becomes that of `at`, so that ids, and those of deliveries, sort as events do. */
  id: string;
  type: EventType;
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Unix ms; in the sandbox by the account's clock. */
  at: number;
  detail: Record<string, unknown>;
  /** What endpoints have subscribed to where it is not the type. */
  topics?: readonly string[];
}

/** What the endpoint of one inbound route subscribes to. */
export function inboundTopic(routeId: string): string {
  return `Inbound:${routeId}`;
}

/** The kind of work rows that carry an event to an endpoint: subject is the endpoint's id, ref the event's number. */
export const WEBHOOK_WORK = 'webhook';

/** Writes events and their webhook deliveries; `seqs` are their numbers in the log, where they have been taken already. */
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
  const made = rowset(tx, 'made', { seq: 'int', accountId: 'text', mode: 'text', topic: 'text', at: 'int' }, wanted);
  await Promise.all([
    insertMany(tx, EVENT, rows),
    // An endpoint's work lies in the order of its events.
    tx.run(
      `INSERT INTO work (kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held)
       SELECT '${WEBHOOK_WORK}', made.account_id, made.mode, wanted.webhook_id, made.seq, wanted.webhook_id,
         made.at - ${clockOffsetSql('made')}, 0, 0, 0, 0, 0
       FROM ${made.sql} JOIN webhook_subscription wanted ON wanted.account_id = made.account_id
         AND wanted.mode = made.mode AND wanted.event_type = made.topic
       ORDER BY made.seq`,
      ...made.params,
    ),
  ]);
}

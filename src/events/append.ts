/**
 * Appends events, and with each the work of telling the account's webhooks: one row per endpoint that wants this type.
 * Fan-out happens here, inside the transaction of the event, and not in a later pass over the log: there is no moment
 * in which an event exists and its deliveries do not, and endpoints are independent of each other from the start.
 */
import { idAt } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import { insertMany, rowset, table, takeNumbers } from '../storage/rows.ts';
import { clockOffsetSql } from '../work/work.ts';
import type { EventType } from './event.ts';

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
  const made = rowset(tx, 'made', { seq: 'int', accountId: 'text', mode: 'text', type: 'text', at: 'int' }, rows);
  await Promise.all([
    insertMany(tx, EVENT, rows),
    // An endpoint's work lies in the order of its events.
    tx.run(
      `INSERT INTO work (kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held)
       SELECT '${WEBHOOK_WORK}', made.account_id, made.mode, wanted.webhook_id, made.seq, wanted.webhook_id,
         made.at - ${clockOffsetSql('made')}, 0, 0, 0, 0, 0
       FROM ${made.sql} JOIN webhook_subscription wanted ON wanted.account_id = made.account_id
         AND wanted.mode = made.mode AND wanted.event_type = made.type
       ORDER BY made.seq`,
      ...made.params,
    ),
  ]);
}

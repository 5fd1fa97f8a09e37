/**
 * Appends many events at once on PostgreSQL: what appendEvent does for one, in one statement for all: the events, and
 * the work of telling each endpoint that wants their type.
 */
import { idAt } from '../base/ids.ts';
import type { Transaction } from '../storage/operation.ts';
import { bigintArray, textArray } from '../storage/postgres-arrays.ts';
import { NEW_WORK } from '../work/work.ts';
import { type NewEvent, WEBHOOK_WORK } from './store.ts';

/** Sends the statement; an error of it fails the transaction, whether it is awaited or not. */
export function appendMany(tx: Transaction, events: readonly NewEvent[]): void {
  if (events.length === 0) return;
  void tx.run(
    `WITH made AS (
       INSERT INTO event (account_id, mode, id, type, message_id, at, detail, position)
       SELECT new.*, (SELECT event_position()) FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]),
         CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS TEXT[])) AS new
       RETURNING seq, account_id, mode, type, at)
     INSERT INTO work (${NEW_WORK})
     SELECT '${WEBHOOK_WORK}', made.account_id, made.mode, wanted.webhook_id, made.seq, wanted.webhook_id,
       made.at - CASE WHEN made.mode = 'sandbox'
         THEN coalesce((SELECT ahead_ms FROM sandbox_clock WHERE account_id = made.account_id), 0) ELSE 0 END,
       0, 0, 0, 0, 0
     FROM made JOIN webhook_subscription wanted ON wanted.account_id = made.account_id AND wanted.mode = made.mode
       AND wanted.event_type = made.type`,
    textArray(events.map((event) => event.accountId)),
    textArray(events.map((event) => event.mode)),
    textArray(events.map((event) => idAt(event.id, event.at))),
    textArray(events.map((event) => event.type)),
    textArray(events.map((event) => event.messageId)),
    bigintArray(events.map((event) => event.at)),
    textArray(events.map((event) => JSON.stringify(event.detail))),
  );
}

/**
 * Appends many events at once on the embedded database: what appendEvent does for one. Which endpoints want a type of event
 * is looked up once for all events of that type.
 */

import { insertRows, rowsOf } from '../storage/insert-rows.ts';
import type { EmbeddedTransaction } from '../storage/operation.ts';
import { embeddedClockOffsetOf, enqueueRows, type NewWork } from '../work/work.ts';
import { ENQUEUE_FOR_ALL, EVENT_COLUMNS, eventValues, FIRST_TWO, type NewEvent, WEBHOOK_WORK } from './store.ts';

const EVENTS = rowsOf('event', EVENT_COLUMNS, '?, ?, ?, ?, ?, ?, ?');

export function appendRows(tx: EmbeddedTransaction, events: readonly NewEvent[]): void {
  if (events.length === 0) return;
  const last = insertRows(tx, EVENTS, events.map(eventValues));
  const wantedBy = endpointsThatWant(tx);
  const work: NewWork[] = [];
  for (const [index, event] of events.entries()) {
    const { accountId, mode } = event;
    const [first, second] = wantedBy(event);
    if (first === undefined) continue;
    const ref = last - events.length + 1 + index;
    const dueMs = event.at - embeddedClockOffsetOf(tx, event);
    if (second !== undefined) {
      // An endpoint's work lies in the order of its events.
      enqueueRows(tx, work.splice(0));
      tx.run(ENQUEUE_FOR_ALL, ref, dueMs, accountId, mode, event.type);
    } else work.push({ kind: WEBHOOK_WORK, accountId, mode, subject: first, ref, lane: first, dueMs, leaseMs: null });
  }
  enqueueRows(tx, work);
}

/** At most two of them. */
function endpointsThatWant(tx: EmbeddedTransaction): (event: NewEvent) => readonly string[] {
  const known = new Map<string, string[]>();
  return ({ accountId, mode, type }) => {
    const key = `${accountId} ${mode} ${type}`;
    let found = known.get(key);
    if (found === undefined) {
      found = tx.all<{ webhook_id: string }>(FIRST_TWO, accountId, mode, type).map((row) => row.webhook_id);
      known.set(key, found);
    }
    return found;
  };
}

/**
 * Reads the log of events: newest first, or oldest first to follow it. The number of an event is its order of commit,
 * so that who follows the log by it is never overtaken. Reads one account and mode, never more.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import type { EventRow, EventType } from './event.ts';

export interface EventPage {
  accountId: string;
  mode: Mode;
  order: 'asc' | 'desc';
  /** Number of the last event seen; rows come strictly after it in the order asked for. */
  after: number | null;
  limit: number;
  messageId: string | null;
  eventType: EventType | null;
  /** Unix ms, both inclusive. */
  sinceMs: number | null;
  untilMs: number | null;
}

const JOINED = `SELECT v.seq, v.id, v.type, v.message_id, v.mode, v.at, v.detail, m.recipient, e.header_from, e.subject,
     e.tags, e.metadata
   FROM event v JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
     JOIN email e ON e.seq = m.email_seq`;

async function readEvents(tx: Transaction, page: EventPage): Promise<EventRow[]> {
  const conditions = ['v.account_id = ?', 'v.mode = ?'];
  const params: SqlValue[] = [page.accountId, page.mode];
  const add = (condition: string, value: SqlValue): void => {
    if (value === null) return;
    conditions.push(condition);
    params.push(value);
  };
  add(page.order === 'asc' ? 'v.seq > ?' : 'v.seq < ?', page.after);
  add('v.message_id = ?', page.messageId);
  add('v.type = ?', page.eventType);
  add('v.at >= ?', page.sinceMs);
  add('v.at <= ?', page.untilMs);
  const order = page.order === 'asc' ? 'ASC' : 'DESC';
  return tx.all<EventRow>(
    `${JOINED} WHERE ${conditions.join(' AND ')} ORDER BY v.seq ${order} LIMIT ?`,
    ...params,
    page.limit,
  );
}

export const readEventsOperation = operation('events.read', 'read', (tx, page: EventPage) => readEvents(tx, page));

/** The events of one message, oldest first. */
export async function timeline(
  tx: Transaction,
  message: { accountId: string; mode: Mode; messageId: string },
): Promise<EventRow[]> {
  return tx.all<EventRow>(
    `${JOINED} WHERE v.message_id = ? AND v.account_id = ? AND v.mode = ? ORDER BY v.seq`,
    message.messageId,
    message.accountId,
    message.mode,
  );
}

/**
 * Reads the log of events: newest first, or oldest first to follow it, one account and mode at a time. Who follows the
 * log never misses an event that is committed after later ones: in the embedded database events are numbered in their
 * order of commit; on a shared one they lie at the position of their transaction, and are shown once every transaction
 * before it has ended.
 */
import { asciiLower } from '../base/ascii-lower.ts';
import type { Mode } from '../base/mode.ts';
import { addressSpellings } from '../mail/address.ts';
import { type Fragment, operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import type { EventRow, EventType } from './event.ts';
import { rangesOfTime, type SeqRange } from './segment-store.ts';

/** Where an event lies in the log. */
export interface EventPlace {
  position: number;
  seq: number;
}

export interface EventPage {
  accountId: string;
  mode: Mode;
  order: 'asc' | 'desc';
  /** Place of the last event seen; rows come strictly after it in the order asked for. */
  after: EventPlace | null;
  limit: number;
  messageId: string | null;
  /** The whole address, in any of its spellings. */
  recipient?: string | null;
  eventType: EventType | null;
  /** Unix ms, both inclusive. */
  sinceMs: number | null;
  untilMs: number | null;
  /** Place of the last event to look at, in the order asked for. */
  through?: EventPlace | null;
}

/** Of an event `v`: where it lies in the log, whether all events before it are there, and how places are compared and ordered. */
interface LogOrder {
  position: string;
  settled: string;
  order(direction: 'ASC' | 'DESC'): string;
  /** A condition that the event lies on this side of a place. */
  beside(compare: '<' | '<=' | '>' | '>=', place: EventPlace): Fragment;
}

/** In the embedded database events are numbered in the order of their commits; on a server that of transactions counts first. */
export function logOrder({ dialect }: Transaction): LogOrder {
  if (dialect === 'postgres') {
    return {
      position: 'v.position',
      settled: SETTLED,
      order: (direction) => `v.position ${direction}, v.seq ${direction}`,
      beside: (compare, { position, seq }) => ({
        ...{ sql: `(v.position, v.seq) ${compare} (?, ?)`, params: [position, seq] },
      }),
    };
  }
  return {
    position: 'v.seq',
    settled: '1 = 1',
    order: (direction) => `v.seq ${direction}`,
    beside: (compare, { seq }) => ({ sql: `v.seq ${compare} ?`, params: [seq] }),
  };
}

/** The columns of EventRow from these rows of `event`. */
const joined = (log: LogOrder, events: string): string =>
  `SELECT ${log.position} AS position, v.seq, v.id, v.type, v.message_id, v.mode, v.at, v.detail, m.recipient, e.header_from, e.subject,
     e.tags, e.metadata
   FROM ${events} v JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
     JOIN email e ON e.seq = m.email_seq`;

/** Below the oldest transaction that is still under way, whose events may lie before others that are there already. */
const SETTLED =
  'v.position < (SELECT xid_offset FROM event_order WHERE id = 1) + CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)';

/** Types that every mail has an event of. */
const EVERYDAY: readonly EventType[] = ['Send', 'Delivery'];
const EVERYDAY_LIST = EVERYDAY.map((type) => `'${type}'`).join(', ');

async function readEvents(tx: Transaction, page: EventPage): Promise<EventRow[]> {
  const log = logOrder(tx);
  const conditions = ['v.account_id = ?', 'v.mode = ?'];
  const params: SqlValue[] = [page.accountId, page.mode];
  const add = (condition: string, value: SqlValue): void => {
    if (value === null) return;
    conditions.push(condition);
    params.push(value);
  };
  const [beyond, upTo] = page.order === 'asc' ? (['>', '<='] as const) : (['<', '>='] as const);
  const bound = (compare: '<' | '<=' | '>' | '>=', place: EventPlace | null | undefined): void => {
    if (!place) return;
    const beside = log.beside(compare, place);
    conditions.push(beside.sql);
    params.push(...beside.params);
  };
  bound(beyond, page.after);
  bound(upTo, page.through);
  if (page.order === 'asc') conditions.push(log.settled);
  add('v.message_id = ?', page.messageId);
  add('v.type = ?', page.eventType);
  // Names the index of rare events.
  if (page.eventType !== null && !EVERYDAY.includes(page.eventType))
    conditions.push(`v.type NOT IN (${EVERYDAY_LIST})`);
  add('v.at >= ?', page.sinceMs);
  add('v.at <= ?', page.untilMs);
  if (page.recipient) {
    const spellings = addressSpellings(page.recipient).map(asciiLower);
    conditions.push(
      `EXISTS (SELECT 1 FROM message r WHERE r.account_id = v.account_id AND r.mode = v.mode AND r.id = v.message_id
         AND lower(r.recipient) IN (${spellings.map(() => '?').join(', ')}))`,
    );
    params.push(...spellings);
  }
  const place = log.order(page.order === 'asc' ? 'ASC' : 'DESC');
  // The page is chosen before anything is joined: every event has its message and email.
  const chosen = choose(await rangesOf(tx, page), { conditions, params, place, limit: page.limit });
  return tx.all<EventRow>(`${joined(log, `(${chosen.sql})`)} ORDER BY ${place}`, ...chosen.params);
}

interface Choice {
  conditions: string[];
  params: SqlValue[];
  place: string;
  limit: number;
}

/** The first `limit` events of these parts of the log together, each read by itself. */
function choose(
  ranges: (SeqRange | null)[],
  { conditions, params, place, limit }: Choice,
): { sql: string; params: SqlValue[] } {
  const parts = ranges.map((range) => {
    const within = range === null ? [] : ['v.seq >= ?', 'v.seq <= ?'];
    const sql = `SELECT * FROM event v WHERE ${[...conditions, ...within].join(' AND ')} ORDER BY ${place} LIMIT ?`;
    return { sql, params: [...params, ...(range === null ? [] : [range.from, range.to]), limit] };
  });
  if (parts.length === 1) return parts[0]!;
  const all = parts.map(({ sql }) => `SELECT * FROM (${sql}) AS part`).join(' UNION ALL ');
  return {
    sql: `SELECT * FROM (${all}) AS v ORDER BY ${place} LIMIT ?`,
    params: [...parts.flatMap((part) => part.params), limit],
  };
}

/** Parts of the log to read; null is all of it. */
async function rangesOf(tx: Transaction, page: EventPage): Promise<(SeqRange | null)[]> {
  // The events of one message are few, and found by it.
  const isTimed = (page.sinceMs !== null || page.untilMs !== null) && page.messageId === null;
  return isTimed ? rangesOfTime(tx, page) : [null];
}

export const readEventsOperation = operation('events.read', 'read', (tx, page: EventPage) => readEvents(tx, page));

/** The place that ends a part of so many events behind one, in the order asked for; null where there are fewer. */
export const eventsPartOperation = operation(
  'events.part',
  'read',
  async (tx, { page, rows }: { page: EventPage; rows: number }): Promise<EventPlace | null> => {
    const { accountId, mode, after } = page;
    const log = logOrder(tx);
    const beside = after === null ? { sql: '1 = 1', params: [] } : log.beside(page.order === 'asc' ? '>' : '<', after);
    // What is still to come before a place must not be passed over by a subscriber of the log.
    const settled = page.order === 'asc' ? log.settled : '1 = 1';
    const found = await tx.get<EventPlace>(
      `SELECT ${log.position} AS position, v.seq FROM event v
       WHERE v.account_id = ? AND v.mode = ? AND ${beside.sql} AND ${settled}
       ORDER BY ${log.order(page.order === 'asc' ? 'ASC' : 'DESC')} LIMIT 1 OFFSET ?`,
      ...[accountId, mode, ...beside.params, rows - 1],
    );
    return found ?? null;
  },
);

/** The events of one message, oldest first. */
export async function timeline(
  tx: Transaction,
  message: { accountId: string; mode: Mode; messageId: string },
): Promise<EventRow[]> {
  return tx.all<EventRow>(
    `${joined(logOrder(tx), 'event')} WHERE v.message_id = ? AND v.account_id = ? AND v.mode = ? ORDER BY v.seq`,
    message.messageId,
    message.accountId,
    message.mode,
  );
}

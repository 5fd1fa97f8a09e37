/**
 * Reads the event log of one account and mode: newest first, or oldest first to follow it. A follower never misses an event that is
 * committed after later ones. In the embedded database, events are numbered in commit order. On a shared database, they have the position
 * of their transaction and are returned once every earlier transaction has ended. After a failover, positions continue above all previous
 * ones (event_position() in the database).
 *
 * Search by time: the numbers of events are nearly, but not exactly, in the order of their times, because clocks are adjusted and the
 * sandbox's clock runs ahead. The log is therefore divided into segments that store their first and last time, and all segments that may
 * contain a requested time are read. The last segment is open: its times are unknown.
 *
 * Events of inbound mail are large (up to about 300 KB of content). A page of them ends before its limit rather than exceed PAGE_BYTES, and
 * reports where it stopped.
 */
import type { Mode, Owner } from '../base/mode.ts';
import { type Fragment, operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { numbersBefore, rowset } from '../storage/rows.ts';
import type { Found, SearchPart } from '../storage/searches.ts';
import { addressFilter, COMPARED_PART_ROWS, COMPARED_ROWS, type TextFilter } from '../storage/text-filter.ts';
import type { EventRow, EventType } from './event.ts';

/** Maximum bytes of inbound content in one page, which take about 30 ms as JSON. A page has at least one event, regardless of its size. */
export const PAGE_BYTES = 4_000_000;

export interface EventPlace {
  position: number;
  seq: number;
}

export interface EventPage {
  accountId: string;
  mode: Mode;
  order: 'asc' | 'desc';
  /** Place of the last event read; rows come strictly after it in the requested order. */
  after: EventPlace | null;
  limit: number;
  messageId: string | null;
  /** The complete address, in any spelling. */
  recipient?: string | null;
  /** An event matches if it has any of these types. */
  eventTypes?: readonly EventType[];
  /** An event matches if it has all of these tags, spelled exactly. */
  tags?: readonly string[];
  /** Unix ms, both inclusive. */
  sinceMs: number | null;
  untilMs: number | null;
  /** Place of the last event to consider, in the requested order. */
  through?: EventPlace | null;
}

/** SQL for an event `v`: its place, whether all earlier events are committed, and how places are compared and ordered. */
interface LogOrder {
  position: string;
  settled: string;
  end: string;
  order(direction: 'ASC' | 'DESC'): string;
  comparePlace(compare: '<' | '<=' | '>' | '>=', place: EventPlace): Fragment;
}

/**
 * Returns the order of the log. In the embedded database, events are numbered in commit order; on a server, the position of the transaction
 * comes first.
 */
export function logOrder({ dialect }: Transaction): LogOrder {
  if (dialect === 'postgres') {
    return {
      position: 'v.position',
      settled: SETTLED,
      // On a timeline without events, the offset is about to be increased (event_position()).
      end: `SELECT (SELECT xid_offset + CASE WHEN timeline IS DISTINCT FROM wal_timeline() THEN 2147483648 ELSE 0 END
          FROM event_order WHERE id = 1)
        + CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS last`,
      order: (direction) => `v.position ${direction}, v.seq ${direction}`,
      comparePlace: (compare, { position, seq }) => ({
        sql: `(v.position, v.seq) ${compare} (?, ?)`,
        params: [position, seq],
      }),
    };
  }
  return {
    position: 'v.seq',
    settled: '1 = 1',
    end: "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) AS last",
    order: (direction) => `v.seq ${direction}`,
    comparePlace: (compare, { seq }) => ({ sql: `v.seq ${compare} ?`, params: [seq] }),
  };
}

/** Returns the SELECT of the columns of EventRow for these rows of `event`; inbound content is represented only by its size. */
const joined = (log: LogOrder, events: string): string =>
  `SELECT ${log.position} AS position, v.seq, v.id, v.type, v.message_id, v.mode, v.at, v.detail, octet_length(i.detail) AS "mailBytes",
     i.recipient AS "mailRecipient", m.recipient, e.header_from, e.subject, e.header_message_id, e.tags, e.metadata, e.dsn
   FROM ${events} v LEFT JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
     LEFT JOIN email e ON e.seq = m.email_seq
     LEFT JOIN inbound_message i ON v.type = 'Inbound' AND i.id = v.message_id`;

/** SQL condition: the position is below the oldest transaction in progress, whose events may precede existing ones. */
const SETTLED =
  'v.position < (SELECT xid_offset FROM event_order WHERE id = 1) + CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)';

/** Types of which nearly every message has an event. */
const COMMON_TYPES: readonly EventType[] = ['Send', 'Delivery'];
const COMMON_LIST = COMMON_TYPES.map((type) => `'${type}'`).join(', ');

/** Returns the rows that fit into a page. If it ends early because the next row is too large, also returns where it ended. */
async function readPage(tx: Transaction, page: EventPage): Promise<Found<EventRow, EventPlace>> {
  const { rows, stoppedAt } = await matchingEvents(tx, page);
  const fitting = fittingOf(rows);
  const last = fitting.at(-1);
  const isShort = fitting.length < rows.length;
  return { rows: await withMail(tx, fitting), stoppedAt: last && isShort ? placeOf(last) : stoppedAt };
}

/** Size and recipient of inbound mail are null for all other events. */
type ChosenRow = EventRow & { mailBytes: number | null; mailRecipient: string | null };

/** Returns the first rows that fit into a page; at least one. */
export function fittingOf<T extends { mailBytes: number | null }>(rows: readonly T[]): readonly T[] {
  let bytes = 0;
  const end = rows.findIndex(({ mailBytes }, index) => {
    bytes += mailBytes ?? 0;
    return index > 0 && bytes > PAGE_BYTES;
  });
  return end === -1 ? rows : rows.slice(0, end);
}

async function withMail(tx: Transaction, rows: readonly ChosenRow[]): Promise<EventRow[]> {
  const inbound = rows.filter(({ mailBytes }) => mailBytes !== null).map(({ message_id: id }) => ({ id }));
  if (inbound.length === 0) return [...rows];
  const requested = rowset(tx, 'requested', { id: 'text' }, inbound);
  const found = await tx.all<{ id: string; detail: string }>(
    `SELECT id, detail FROM inbound_message WHERE id IN (SELECT requested.id FROM ${requested.sql})`,
    ...requested.params,
  );
  const details = new Map(found.map(({ id, detail }) => [id, detail]));
  return rows.map((row) => ({ ...row, detail: details.get(row.message_id) ?? row.detail }));
}

function placeOf({ position, seq }: EventRow): EventPlace {
  return { position: position ?? seq, seq };
}

/** Returns the filter of the page that SQL cannot decide. */
function comparedFilter({ recipient }: EventPage): TextFilter | undefined {
  const filter = recipient ? addressFilter(recipient) : undefined;
  return filter?.isExact ? undefined : filter;
}

/** Returns the first matches of the page. If it compares recipients, it stops after COMPARED_ROWS events that might match. */
async function matchingEvents(tx: Transaction, page: EventPage): Promise<Found<ChosenRow, EventPlace>> {
  const compared = comparedFilter(page);
  if (compared === undefined) return { rows: await chooseEvents(tx, page), stoppedAt: null };
  // The events of one message have the same recipient, so all of them match or none does.
  const limit = page.messageId === null ? COMPARED_ROWS : page.limit;
  const rows = await chooseEvents(tx, { ...page, limit });
  const isMatch = ({ recipient, mailRecipient }: ChosenRow): boolean => {
    const stored = recipient ?? mailRecipient;
    return stored !== null && compared.matches(stored);
  };
  const matches = rows.filter(isMatch).slice(0, page.limit);
  const isAtEnd = page.messageId !== null || rows.length < limit || matches.length === page.limit;
  return { rows: matches, stoppedAt: isAtEnd ? null : placeOf(rows.at(-1)!) };
}

/** Returns the first events that satisfy the conditions of the page in SQL. */
async function chooseEvents(tx: Transaction, page: EventPage): Promise<ChosenRow[]> {
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
    const condition = log.comparePlace(compare, place);
    conditions.push(condition.sql);
    params.push(...condition.params);
  };
  bound(beyond, page.after);
  bound(upTo, page.through);
  if (page.order === 'asc') conditions.push(log.settled);
  add('v.message_id = ?', page.messageId);
  add('v.at >= ?', page.sinceMs);
  add('v.at <= ?', page.untilMs);
  for (const { sql, params: values } of conditionsOfMail(tx, page)) {
    conditions.push(sql);
    params.push(...values);
  }
  const place = log.order(page.order === 'asc' ? 'ASC' : 'DESC');
  // The page is selected before anything is joined: every event has a message and email, or an inbound message.
  const ranges = await rangesOf(tx, page);
  const chosen = choose(ranges, conditionsOfTypes(page.eventTypes), { conditions, params, place, limit: page.limit });
  return tx.all<ChosenRow>(`${joined(log, `(${chosen.sql})`)} ORDER BY ${place}`, ...chosen.params);
}

/** Returns the conditions on the message and email of an event `v`, or on its inbound message. */
function conditionsOfMail(tx: Transaction, { recipient, tags = [] }: EventPage): Fragment[] {
  const message = 'm.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id';
  const requested: Fragment[] = [];
  if (recipient) {
    const filter = addressFilter(recipient);
    const [sent, inbound] = [filter.condition(tx, 'm.recipient'), filter.condition(tx, 'i.recipient')];
    // Many messages may satisfy a condition that is not exact. With OFFSET, PostgreSQL finds each message by its key instead of reading all of
    // these messages, of every account, into a hash table.
    const byKey = filter.isExact ? '' : 'LIMIT 1 OFFSET 0';
    const sql = `(EXISTS (SELECT 1 FROM message m WHERE ${message} AND ${sent.sql} ${byKey}) OR v.type = 'Inbound'
      AND EXISTS (SELECT 1 FROM inbound_message i WHERE i.id = v.message_id AND ${inbound.sql} ${byKey}))`;
    requested.push({ sql, params: [...sent.params, ...inbound.params] });
  }
  if (tags.length > 0) {
    const contains = tx.dialect === 'postgres' ? 'strpos' : 'instr';
    const all = tags.map(() => `${contains}(e.tags, ?) > 0`).join(' AND ');
    requested.push({
      sql: `EXISTS (SELECT 1 FROM message m JOIN email e ON e.seq = m.email_seq WHERE ${message} AND ${all})`,
      params: tags.map((tag) => JSON.stringify(tag)),
    });
  }
  return requested;
}

/**
 * Returns alternative conditions, each of which an index serves in log order. Rare types have a partial index, which the database uses only
 * if the condition excludes the common types.
 */
function conditionsOfTypes(types: readonly EventType[] = []): Fragment[] {
  if (types.length === 0) return [{ sql: '1 = 1', params: [] }];
  if (types.some((type) => COMMON_TYPES.includes(type)))
    return [{ sql: `v.type IN (${types.map(() => '?').join(', ')})`, params: [...types] }];
  return types.map((type) => ({ sql: `v.type = ? AND v.type NOT IN (${COMMON_LIST})`, params: [type] }));
}

interface Choice {
  conditions: string[];
  params: SqlValue[];
  place: string;
  limit: number;
}

/** Returns the first `limit` events of these parts of the log and these kinds, each read separately. */
function choose(
  ranges: (SeqRange | null)[],
  kinds: Fragment[],
  { conditions, params, place, limit }: Choice,
): Fragment {
  const parts = ranges.flatMap((range) =>
    kinds.map((kind) => {
      const within = range === null ? [] : ['v.seq >= ?', 'v.seq <= ?'];
      const all = [...conditions, kind.sql, ...within].join(' AND ');
      const bounds = range === null ? [] : [range.from, range.to];
      return {
        sql: `SELECT * FROM event v WHERE ${all} ORDER BY ${place} LIMIT ?`,
        params: [...params, ...kind.params, ...bounds, limit],
      };
    }),
  );
  if (parts.length === 1) return parts[0]!;
  const all = parts.map(({ sql }) => `SELECT * FROM (${sql}) AS part`).join(' UNION ALL ');
  return {
    sql: `SELECT * FROM (${all}) AS v ORDER BY ${place} LIMIT ?`,
    params: [...parts.flatMap((part) => part.params), limit],
  };
}

/** Returns the parts of the log to read; null is the entire log. */
async function rangesOf(tx: Transaction, page: EventPage): Promise<(SeqRange | null)[]> {
  // A message has few events, which are found by its id.
  const isTimed = (page.sinceMs !== null || page.untilMs !== null) && page.messageId === null;
  return isTimed ? rangesOfTime(tx, page) : [null];
}

export const readEventsOperation = operation('events.read', 'read', async (tx, page: EventPage) =>
  withMail(tx, (await matchingEvents(tx, page)).rows),
);

/** Reads a page for display: a page of large events is shorter than its limit and reports where it stopped. */
export const readEventPageOperation = operation('events.readPage', 'read', (tx, page: EventPage) => readPage(tx, page));

/** Returns the place of the last of the next `rows` events after a place, in the requested order; null if there are fewer. */
async function partEnd(tx: Transaction, page: EventPage, rows: number): Promise<EventPlace | null> {
  const { accountId, mode, after, through } = page;
  const log = logOrder(tx);
  const [beyond, upTo] = page.order === 'asc' ? (['>', '<='] as const) : (['<', '>='] as const);
  const bounds = [
    after ? log.comparePlace(beyond, after) : undefined,
    through ? log.comparePlace(upTo, through) : undefined,
  ];
  const given = bounds.filter((one) => one !== undefined);
  // A follower of the log must not skip events that may still be committed before a place.
  const settled = page.order === 'asc' ? log.settled : '1 = 1';
  const found = await tx.get<EventPlace>(
    `SELECT ${log.position} AS position, v.seq FROM event v
     WHERE v.account_id = ? AND v.mode = ? ${given.map(({ sql }) => `AND ${sql}`).join(' ')} AND ${settled}
     ORDER BY ${log.order(page.order === 'asc' ? 'ASC' : 'DESC')} LIMIT 1 OFFSET ?`,
    accountId,
    mode,
    ...given.flatMap(({ params }) => params),
    rows - 1,
  );
  return found ?? null;
}

/** Returns the events among the next `rows` events that match the page. */
export const searchEventsOperation = operation(
  'events.search',
  'search',
  async (tx, { page, rows }: { page: EventPage; rows: number }): Promise<SearchPart<EventRow, EventPlace>> => {
    const end = await partEnd(tx, page, comparedFilter(page) ? Math.min(rows, COMPARED_PART_ROWS) : rows);
    const { rows: found, stoppedAt } = await readPage(tx, end === null ? page : { ...page, through: end });
    return { found, end: stoppedAt ?? end };
  },
);

/** Returns the events of one message, oldest first. */
export async function timeline(
  tx: Transaction,
  message: { accountId: string; mode: Mode; messageId: string },
): Promise<EventRow[]> {
  return tx.all<ChosenRow>(
    `${joined(logOrder(tx), 'event')} WHERE v.message_id = ? AND v.account_id = ? AND v.mode = ? ORDER BY v.seq`,
    message.messageId,
    message.accountId,
    message.mode,
  );
}

export const BEGINNING: EventPlace = { position: 0, seq: 0 };

/**
 * Returns whether the place is after all events that this database has ever numbered. Such a place comes from another database, or from
 * before a backup was restored. A follower would silently miss events until the numbers reach it.
 */
export const isAfterEndOperation = operation('events.isAfterEnd', 'read', async (tx, place: EventPlace) => {
  const row = await tx.get<{ last: number }>(logOrder(tx).end);
  return place.position > (row?.last ?? 0);
});

/** Returns the last place of each owner, in the given order. No event is ever added before it. */
export const latestPlacesOperation = operation('events.latest', 'read', async (tx, owners: Owner[]) => {
  const log = logOrder(tx);
  const last = (column: string): string =>
    `(SELECT ${column} FROM event v WHERE v.account_id = owner.account_id AND v.mode = owner.mode AND ${log.settled}
         ORDER BY ${log.order('DESC')} LIMIT 1)`;
  const owner = rowset(
    tx,
    'owner',
    { number: 'int', accountId: 'text', mode: 'text' },
    owners.map((one, number) => ({ number, ...one })),
  );
  const rows = await tx.all<{ position: number | null; seq: number | null }>(
    `SELECT ${last(log.position)} AS position, ${last('v.seq')} AS seq FROM ${owner.sql} ORDER BY owner.number`,
    ...owner.params,
  );
  return rows.map(({ position, seq }) => (position === null || seq === null ? BEGINNING : { position, seq }));
});

const EVENTS_IN_SEGMENT = 1_024;
/** Longer than any transaction of a shared database takes, so all events before this time are committed. */
const SETTLED_MS = 3_600_000;

/** Stores the times of the next full segment. Returns true if there was one; there may then be another. */
export const noteSegmentOperation = operation(
  'events.noteSegment',
  'write',
  async (tx, { nowMs, events = EVENTS_IN_SEGMENT }: { nowMs: number; events?: number }): Promise<boolean> => {
    const times = (['live', 'sandbox'] as const)
      .flatMap((mode) => ['min', 'max'].map((pick) => `${pick}(CASE WHEN mode = '${mode}' THEN at END)`))
      .join(', ');
    const settled = numbersBefore(tx, nowMs - SETTLED_MS);
    const noted = await tx.run(
      `INSERT INTO event_stretch (last_seq, first_seq, live_from, live_until, sandbox_from, sandbox_until)
       SELECT max(seq), min(seq), ${times} FROM (
         SELECT seq, mode, at FROM event WHERE seq > coalesce((SELECT max(last_seq) FROM event_stretch), -1)
         ORDER BY seq LIMIT ?) AS segment
       HAVING count(*) = ? AND max(seq) < ?
       ON CONFLICT (last_seq) DO NOTHING`,
      events,
      events,
      settled,
    );
    return noted > 0;
  },
);

/** Deletes the segments before the oldest event. */
export const forgetSegmentsOperation = operation(
  'events.forgetSegments',
  'write',
  async (tx, _: null): Promise<number> =>
    tx.run('DELETE FROM event_stretch WHERE last_seq < (SELECT seq FROM event ORDER BY seq LIMIT 1)'),
);

/** A part of the log by numbers, both inclusive. */
export interface SeqRange {
  from: number;
  to: number;
}

/** Returns the parts of the log, oldest first and at most two, that contain all events of the mode at the requested times. */
export async function rangesOfTime(
  tx: Transaction,
  { mode, sinceMs, untilMs }: { mode: Mode; sinceMs: number | null; untilMs: number | null },
): Promise<SeqRange[]> {
  const found = await tx.get<{ first: number | null; last: number | null; noted: number | null }>(
    `SELECT min(CASE WHEN ${mode}_until >= ? AND ${mode}_from <= ? THEN first_seq END) AS first,
       max(CASE WHEN ${mode}_until >= ? AND ${mode}_from <= ? THEN last_seq END) AS last, max(last_seq) AS noted
     FROM event_stretch`,
    sinceMs ?? Number.MIN_SAFE_INTEGER,
    untilMs ?? Number.MAX_SAFE_INTEGER,
    sinceMs ?? Number.MIN_SAFE_INTEGER,
    untilMs ?? Number.MAX_SAFE_INTEGER,
  );
  const { first = null, last = null, noted = null } = found ?? {};
  const open = { from: (noted ?? -1) + 1, to: Number.MAX_SAFE_INTEGER };
  if (first === null || last === null) return [open];
  return last === noted ? [{ from: first, to: open.to }] : [{ from: first, to: last }, open];
}

/**
 * Reads and changes messages for the API: lists, a message with its attempts and timeline, content, and the changes that a user can make
 * before a message is sent (cancel, reschedule). A message that a worker has leased cannot be changed.
 */

import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { type EventRow, timeline } from '../events/events.ts';
import type { StoredContent } from '../storage/blobs/stored-content.ts';
import { locked, operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import type { SearchPart } from '../storage/searches.ts';
import {
  addressOrPartFilter,
  anyOf,
  COMPARED_PART_ROWS,
  COMPARED_ROWS,
  partFilter,
  type TextFilter,
} from '../storage/text-filter.ts';
import { clockOffsetOf } from '../work/work.ts';
import {
  type EmailOptions,
  MESSAGE_TRAIL,
  type MessageRow,
  type MessageStatus,
  messageColumns,
  RETAIN_MS,
  type Retain,
  type Role,
} from './message.ts';
import { dropContents } from './retention-store.ts';
import { transition } from './state-machine.ts';

export interface MessageKey {
  accountId: string;
  mode: Mode;
  messageId: string;
}

/** The columns of MessageRow. */
export const COLUMNS = `m.id, m.mode, m.status, w.leased, m.recipient, m.role, e.header_from, e.subject, e.tags, e.metadata,
   e.template_id, e.template_version, e.size_bytes, e.header_message_id, m.created_at, m.send_at, m.next_attempt_at,
   m.expires_at`;
const JOINED = 'FROM message m JOIN email e ON e.seq = m.email_seq LEFT JOIN work w ON w.seq = m.work_seq';

export interface MessagePage {
  accountId: string;
  mode: Mode;
  /** The id of the last message of the previous page. */
  before: string | null;
  limit: number;
  /** A message matches if it has one of these; all do if there are none. */
  statuses: readonly MessageStatus[];
  messageId: string | null;
  /** Part of the address, or the complete address in any spelling. This field and the next three are compared without case. */
  to: string | null;
  /** Part of the From header. */
  from: string | null;
  /** Part of the subject. */
  subject: string | null;
  /** Part of the address or of the subject. */
  any: string | null;
  templateId: string | null;
  /** A message matches if it has all of these tags, spelled exactly. */
  tags: readonly string[];
  /** A message matches if it has all of these names with exactly these values. */
  metadata: readonly (readonly [name: string, value: string])[];
  /** Unix ms of acceptance, both inclusive. */
  sinceMs: number | null;
  untilMs: number | null;
  /** All messages of that time have ids from `lowestId` to `highestId`; both narrow the search. */
  lowestId: string | null;
  highestId: string | null;
}

const UNSENT = "m.status IN ('scheduled', 'queued', 'delayed')";

function statusCondition(status: MessageStatus): string {
  if (status === 'sending') return `${UNSENT} AND w.leased > 0`;
  // A message that a worker has leased is shown as sending, and does not match its previous status.
  const waits = status === 'scheduled' || status === 'queued' || status === 'delayed';
  return `m.status = '${status}'${waits ? ' AND coalesce(w.leased, 0) = 0' : ''}`;
}

/** Columns that filters of text compare. */
const TEXTS = { recipient: 'm.recipient', header_from: 'e.header_from', subject: 'e.subject' };
type TextColumn = keyof typeof TEXTS;
type TextRow = { id: string } & Record<TextColumn, string>;

/** A message matches if the text of one of these columns does. */
interface TextCondition {
  filter: TextFilter;
  columns: readonly TextColumn[];
}

function textConditions({ to, from, subject, any }: MessagePage): TextCondition[] {
  const conditions: TextCondition[] = [];
  if (to !== null) conditions.push({ filter: addressOrPartFilter(to), columns: ['recipient'] });
  if (from !== null) conditions.push({ filter: partFilter(from), columns: ['header_from'] });
  if (subject !== null) conditions.push({ filter: partFilter(subject), columns: ['subject'] });
  if (any !== null) conditions.push({ filter: partFilter(any), columns: ['recipient', 'subject'] });
  return conditions;
}

/** Returns the conditions of the page that SQL cannot decide. */
function comparedConditions(page: MessagePage): TextCondition[] {
  return textConditions(page).filter(({ filter }) => !filter.isExact);
}

/** Selects messages, newest first. Ids sort by creation time, so the table's key gives the order of the list. */
async function selectMessages<T>(
  tx: Transaction,
  page: MessagePage,
  { columns, limit }: { columns: string; limit: number },
): Promise<T[]> {
  const conditions = ['m.account_id = ?', 'm.mode = ?'];
  const params: SqlValue[] = [page.accountId, page.mode];
  const add = (condition: string, ...values: SqlValue[]): void => {
    if (values.includes(null)) return;
    conditions.push(condition);
    params.push(...values);
  };
  add('m.id < ?', page.before);
  add('m.id = ?', page.messageId);
  add('m.id >= ?', page.lowestId);
  add('m.id <= ?', page.highestId);
  add('m.created_at >= ?', page.sinceMs);
  add('m.created_at <= ?', page.untilMs);
  for (const { filter, columns: compared } of textConditions(page)) {
    const condition = anyOf(compared.map((column) => filter.condition(tx, TEXTS[column])));
    add(condition.sql, ...condition.params);
  }
  add('e.template_id = ?', page.templateId);
  for (const tag of page.tags)
    add(`${tx.dialect === 'postgres' ? 'strpos' : 'instr'}(e.tags, ?) > 0`, JSON.stringify(tag));
  for (const pair of page.metadata) {
    add(
      tx.dialect === 'postgres'
        ? 'CAST(e.metadata AS jsonb) ->> CAST(? AS TEXT) = ?'
        : 'EXISTS (SELECT 1 FROM json_each(e.metadata) AS pair WHERE pair.key = ? AND pair.value = ?)',
      ...pair,
    );
  }
  if (page.statuses.length > 0) add(`(${page.statuses.map(statusCondition).join(' OR ')})`);
  return tx.all<T>(
    `SELECT ${columns} ${JOINED} WHERE ${conditions.join(' AND ')} ORDER BY m.id DESC LIMIT ?`,
    ...params,
    limit,
  );
}

/**
 * Returns the ids of matches, newest first, of a page with conditions that SQL cannot decide, and where the comparison stopped: at the last
 * id if they fill the page, or after COMPARED_ROWS messages that might match; null if it reached the end.
 */
async function compareMessages(
  tx: Transaction,
  page: MessagePage,
  compared: readonly TextCondition[],
): Promise<{ ids: string[]; stoppedAt: string | null }> {
  const names = [...new Set(compared.flatMap(({ columns }) => columns))];
  const columns = ['m.id', ...names.map((name) => TEXTS[name])].join(', ');
  const rows = await selectMessages<TextRow>(tx, page, { columns, limit: COMPARED_ROWS });
  const isMatch = (row: TextRow): boolean =>
    compared.every((one) => one.columns.some((name) => one.filter.matches(row[name])));
  const ids = rows
    .filter(isMatch)
    .slice(0, page.limit)
    .map(({ id }) => id);
  if (ids.length === page.limit) return { ids, stoppedAt: ids.at(-1) ?? null };
  return { ids, stoppedAt: rows.length < COMPARED_ROWS ? null : rows.at(-1)!.id };
}

/** Returns these messages, newest first. */
async function messagesOf(tx: Transaction, page: MessagePage, ids: readonly string[]): Promise<MessageRow[]> {
  if (ids.length === 0) return [];
  const wanted = rowset(
    tx,
    'wanted',
    { id: 'text' },
    ids.map((id) => ({ id })),
  );
  return tx.all<MessageRow>(
    `SELECT ${COLUMNS} ${JOINED} WHERE m.account_id = ? AND m.mode = ? AND m.id IN (SELECT wanted.id FROM ${wanted.sql})
     ORDER BY m.id DESC`,
    page.accountId,
    page.mode,
    ...wanted.params,
  );
}

/** Lists messages, newest first. A page that has a filter of text, but no messageId, is for searchMessagesOperation, which reads it in parts. */
export const listMessagesOperation = operation('messages.list', 'read', async (tx, page: MessagePage) => {
  const compared = comparedConditions(page);
  if (compared.length === 0) return selectMessages<MessageRow>(tx, page, { columns: COLUMNS, limit: page.limit });
  return messagesOf(tx, page, (await compareMessages(tx, page, compared)).ids);
});

/** Returns the id that ends a batch of `rows` messages, newest first, before the page's cursor; null if there are fewer. */
async function partEnd(tx: Transaction, page: MessagePage, rows: number): Promise<string | null> {
  const bounds = [page.before, page.highestId, page.lowestId];
  const [before, highest, lowest] = ['m.id < ?', 'm.id <= ?', 'm.id >= ?'].map((one, index) =>
    bounds[index] === null ? '' : `AND ${one}`,
  );
  const found = await tx.get<{ id: string }>(
    `SELECT m.id FROM message m WHERE m.account_id = ? AND m.mode = ? ${before} ${highest} ${lowest}
     ORDER BY m.id DESC LIMIT 1 OFFSET ?`,
    page.accountId,
    page.mode,
    ...bounds.filter((one) => one !== null),
    rows - 1,
  );
  return found?.id ?? null;
}

/** Returns the matches of the page within this batch of messages. */
export const searchMessagesOperation = operation(
  'messages.search',
  'search',
  async (tx, { page, rows }: { page: MessagePage; rows: number }): Promise<SearchPart<MessageRow, string>> => {
    const compared = comparedConditions(page);
    const end = await partEnd(tx, page, compared.length === 0 ? rows : Math.min(rows, COMPARED_PART_ROWS));
    const part = end === null ? page : { ...page, lowestId: end };
    if (compared.length === 0) {
      return { found: await selectMessages<MessageRow>(tx, part, { columns: COLUMNS, limit: page.limit }), end };
    }
    const { ids, stoppedAt } = await compareMessages(tx, part, compared);
    // If one of these messages has just been deleted, the search continues after the last one.
    return { found: await messagesOf(tx, page, ids), end: stoppedAt ?? end };
  },
);

async function findRow(tx: Transaction, key: MessageKey): Promise<MessageRow | undefined> {
  return tx.get<MessageRow>(
    `SELECT ${COLUMNS} ${JOINED} WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
    key.accountId,
    key.mode,
    key.messageId,
  );
}

interface MessageDetail {
  row: MessageRow;
  /** JSON of AttemptRecord, oldest first. */
  attempts: string[];
  timeline: EventRow[];
}

/** Returns one message with all of its attempts and events; undefined if the account has none with this id in this mode. */
export const findMessageOperation = operation(
  'messages.find',
  'read',
  async (tx, key: MessageKey): Promise<MessageDetail | undefined> => {
    const row = await findRow(tx, key);
    if (!row) return undefined;
    // Not every database runs these statements on one snapshot. In this order, the events and attempts that led to the status are always
    // present.
    const events = await timeline(tx, key);
    const attempts = await tx.all<{ record: string }>(
      'SELECT record FROM attempt WHERE account_id = ? AND message_id = ? ORDER BY number',
      key.accountId,
      key.messageId,
    );
    return { row, attempts: attempts.map((attempt) => attempt.record), timeline: events };
  },
);

export const findContentOperation = operation('messages.content', 'read', (tx, key: MessageKey) =>
  tx.get<StoredContent & { options: string }>(
    `SELECT e.content, e.blob_key, e.content_digest, e.options FROM message m JOIN email e ON e.seq = m.email_seq
     WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
    key.accountId,
    key.mode,
    key.messageId,
  ),
);

/** A message to resend: the fields of its email, and its recipient. */
export interface StoredMail extends StoredContent {
  recipient: string;
  role: Role;
  status: MessageStatus;
  source: 'http' | 'smtp';
  header_from: string;
  header_to: string;
  envelope_from: string;
  subject: string;
  header_message_id: string;
  tags: string;
  metadata: string;
  options: string;
  size_bytes: number;
  template_id: string | null;
  template_version: number | null;
  retain: Retain;
}

export const findMailOperation = operation('messages.mail', 'read', (tx, key: MessageKey) =>
  tx.get<StoredMail>(
    `SELECT m.recipient, m.role, m.status, e.source, e.header_from, e.header_to, e.envelope_from, e.subject,
       e.header_message_id, e.tags, e.metadata, e.options, e.size_bytes, e.template_id, e.template_version, e.retain,
       e.content, e.blob_key, e.content_digest
     FROM message m JOIN email e ON e.seq = m.email_seq WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
    key.accountId,
    key.mode,
    key.messageId,
  ),
);

/** The result of a change. If nothing was changed, it has the reason and the current status. */
export type Change<T> =
  | ({ changed: true; row: MessageRow } & T)
  | { changed: false; reason: 'not-found' }
  | { changed: false; reason: 'state'; status: MessageStatus };

interface Changeable {
  status: MessageStatus;
  work_seq: number | null;
  leased: number | null;
  email_seq: number;
  retain: Retain;
  options: string;
}

function readChangeable(tx: Transaction, key: MessageKey) {
  return tx.get<Changeable>(
    `SELECT m.status, m.work_seq, w.leased, m.email_seq, e.retain, e.options ${JOINED}
     WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
    key.accountId,
    key.mode,
    key.messageId,
  );
}

export type Cancellation = MessageKey & { eventId: string; nowMs: number };

const CANCELLABLE: readonly MessageStatus[] = ['scheduled', 'queued', 'delayed'];

const CANCELLED = {
  reject: {
    reason: 'cancelled',
    owner: 'sender',
    advice: 'The message was canceled before it was sent; send it again if needed.',
    suppressed: false,
  },
};

/**
 * Cancels a message that was not sent and is not being sent: removes its work and appends a Reject event. Returns the blobs that no row
 * refers to anymore.
 */
export const cancelMessageOperation = change(
  'messages.cancel',
  async (tx, cancellation: Cancellation): Promise<Change<{ blobKeys: string[] }>> => {
    const found = await readChangeable(tx, cancellation);
    if (!found) return { changed: false, reason: 'not-found' };
    if (!CANCELLABLE.includes(found.status)) return { changed: false, reason: 'state', status: found.status };
    if ((found.leased ?? 0) > 0) return { changed: false, reason: 'state', status: 'sending' };
    const { accountId, mode, messageId } = cancellation;
    if ((await tx.run('DELETE FROM work WHERE seq = ? AND leased = 0', found.work_seq)) === 0) {
      return conflictOf(tx, cancellation);
    }
    const changed = await transition(tx, {
      accountId,
      mode,
      messageId,
      to: 'cancelled',
      atMs: cancellation.nowMs,
      event: { id: cancellation.eventId, type: 'Reject', detail: CANCELLED },
    });
    if (!changed) throw new Error(`message ${messageId} cannot become cancelled`);
    const row = (await findRow(tx, cancellation)) as MessageRow;
    return { changed: true, row, blobKeys: await dropUnretained(tx, found.email_seq) };
  },
  { ...MESSAGE_TRAIL, action: 'message.cancel', where: (key) => messageColumns(key) },
);

/** Returns the current state of a message whose work was claimed or finished between the read and the change. */
async function conflictOf(tx: Transaction, key: MessageKey): Promise<Change<never>> {
  const found = await readChangeable(tx, key);
  if (!found) return { changed: false, reason: 'not-found' };
  return { changed: false, reason: 'state', status: (found.leased ?? 0) > 0 ? 'sending' : found.status };
}

async function dropUnretained(tx: Transaction, emailSeq: number): Promise<string[]> {
  const email = await tx.get<{ retain: Retain }>('SELECT retain FROM email WHERE seq = ?', emailSeq);
  return email?.retain === 'none' ? [...(await dropContents(tx, [emailSeq])).values()].flat() : [];
}

/** A reschedule; both times are by the clock of the mode. */
type Move = MessageKey & { sendAtMs: number; nowMs: number };

/** Moves a scheduled message to another time, and its expiry and content retention with it. A time in the past sends it now. */
export const moveMessageOperation = change(
  'messages.move',
  async (tx, move: Move): Promise<Change<object>> => {
    const found = await readChangeable(tx, move);
    if (!found) return { changed: false, reason: 'not-found' };
    if ((found.leased ?? 0) > 0) return { changed: false, reason: 'state', status: 'sending' };
    if (found.status !== 'scheduled') return { changed: false, reason: 'state', status: found.status };
    const { accountId, mode, messageId, nowMs } = move;
    const sendAtMs = move.sendAtMs > nowMs ? move.sendAtMs : nowMs;
    const { expiresAfterSeconds } = JSON.parse(found.options) as EmailOptions;
    const to = sendAtMs > nowMs ? ('scheduled' as const) : ('queued' as const);
    const clockOffsetMs = await clockOffsetOf(tx, move);
    const moved = await tx.run(
      // A row that is held for its lane would otherwise be released only when the lane has capacity.
      'UPDATE work SET due = ?, held = 0 WHERE seq = ? AND leased = 0',
      sendAtMs - clockOffsetMs,
      found.work_seq,
    );
    if (moved === 0) {
      return conflictOf(tx, move);
    }
    await transition(tx, { accountId, mode, messageId, to, atMs: nowMs, nextAttemptAtMs: sendAtMs });
    await tx.run(
      'UPDATE message SET send_at = ?, expires_at = ? WHERE account_id = ? AND mode = ? AND id = ?',
      sendAtMs,
      sendAtMs + expiresAfterSeconds * 1000,
      accountId,
      mode,
      messageId,
    );
    // If two copies are moved at the same time, the later one sees the new time of the other.
    await tx.get(`SELECT 1 AS found FROM email WHERE seq = ? ${locked(tx)}`, found.email_seq);
    await tx.run(
      `UPDATE email SET content_until = (SELECT max(send_at) FROM message WHERE email_seq = email.seq) + CAST(? AS BIGINT)
       WHERE seq = ? AND content_until IS NOT NULL`,
      RETAIN_MS[found.retain] - clockOffsetMs,
      found.email_seq,
    );
    return { changed: true, row: (await findRow(tx, move)) as MessageRow };
  },
  { ...MESSAGE_TRAIL, action: 'message.move', where: (key) => messageColumns(key) },
);

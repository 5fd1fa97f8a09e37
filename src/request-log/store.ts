/**
 * The rows of the request log: added in batches, listed newest first, and limited by age and number, removing the oldest first. The key is
 * the order of the list, so a page is one range; adding a row again changes nothing. Failed requests have their own index and their own
 * limit, so that they are found among, and not displaced by, successful ones. Successful requests are counted by hour: the counts tell how
 * many were omitted, and which rows are over the limit.
 */
import type { Owner } from '../base/mode.ts';
import { list, operation, record, type SqlValue, type Transaction } from '../storage/operation.ts';
import { insertMany, type TableRow, table } from '../storage/rows.ts';
import type { SearchPart } from '../storage/searches.ts';

/** Maximum number of rows of an account in one mode. */
export const KEPT_FAILED = 10_000;
export const KEPT_SUCCEEDED = 1_000_000;
export const HOUR_MS = 3_600_000;

const REQUEST_LOG = table('request_log', {
  accountId: 'text',
  mode: 'text',
  at: 'int',
  number: 'int',
  requestId: 'text',
  source: 'text',
  call: 'text?',
  path: 'text?',
  status: 'int',
  code: 'text?',
  message: 'text?',
  details: 'text?',
  durationMs: 'int?',
  messageId: 'text?',
  credentialId: 'text?',
  address: 'text',
  userAgent: 'text?',
});
export type RequestRow = TableRow<typeof REQUEST_LOG>;

const REQUEST_LOG_HOUR = table('request_log_hour', {
  accountId: 'text',
  mode: 'text',
  hour: 'int',
  recorded: 'int',
  omitted: 'int',
});
/** Successful requests of an hour, to add to its counts. */
export interface HourCounts {
  accountId: string;
  mode: string;
  /** Unix ms of its start. */
  hour: number;
  recorded: number;
  omitted: number;
}

interface Addition {
  rows: RequestRow[];
  /** At most one for an owner and an hour. */
  counts: HourCounts[];
  /** Owners whose failed requests are trimmed to their maximum number. */
  trim: Owner[];
}

export const addRequestsOperation = operation(
  'requestLog.add',
  'write',
  async (tx, { rows, counts, trim }: Addition): Promise<void> => {
    await insertMany(tx, REQUEST_LOG, rows, 'ON CONFLICT (account_id, mode, at, number, request_id) DO NOTHING');
    await insertMany(
      tx,
      REQUEST_LOG_HOUR,
      counts,
      `ON CONFLICT (account_id, mode, hour) DO UPDATE SET recorded = request_log_hour.recorded + excluded.recorded,
         omitted = request_log_hour.omitted + excluded.omitted`,
    );
    for (const owner of trim) await removeFailedBeyond(tx, owner, KEPT_FAILED);
  },
  // Rows are too many to be cloned.
  { codec: record<Addition>({ rows: list(record(REQUEST_LOG.columns)), counts: 'json', trim: 'json' }) },
);

export type Key = Pick<RequestRow, 'at' | 'number' | 'requestId'>;

/** SQLite has no statistics, and would read failed requests through the primary key, past all successful ones. */
const failedRows = ({ dialect }: Transaction): string =>
  dialect === 'sqlite' ? 'request_log INDEXED BY request_log_failed' : 'request_log';

/** Removes all but the newest `kept` failed requests. */
async function removeFailedBeyond(tx: Transaction, { accountId, mode }: Owner, kept: number): Promise<number> {
  const first = await tx.get<Key>(
    `SELECT at, number, request_id AS "requestId" FROM ${failedRows(tx)} WHERE account_id = ? AND mode = ? AND status >= 400
     ORDER BY at DESC, number DESC, request_id DESC LIMIT 1 OFFSET ?`,
    accountId,
    mode,
    kept,
  );
  if (!first) return 0;
  return tx.run(
    `DELETE FROM ${failedRows(tx)} WHERE account_id = ? AND mode = ? AND status >= 400
       AND (at, number, request_id) <= (?, ?, ?)`,
    accountId,
    mode,
    first.at,
    first.number,
    first.requestId,
  );
}

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
export type RequestMethod = (typeof METHODS)[number];

export interface RequestPage extends Owner {
  /** True: only failed requests, read through their index; false: only successful ones; null: both. */
  failed: boolean | null;
  /** Lowest and highest status, both inclusive. */
  statuses: readonly [lowest: number, highest: number] | null;
  source: 'api' | 'smtp' | null;
  method: RequestMethod | null;
  /** Pattern of a route, such as `/messages/:id`. */
  route: string | null;
  credentialId: string | null;
  messageId: string | null;
  code: string | null;
  /** Unix ms, both inclusive. */
  sinceMs: number;
  untilMs: number | null;
  /** Key of the last row seen. */
  before: Key | null;
  limit: number;
}

const SHOWN = `account_id AS "accountId", mode, at, number, request_id AS "requestId", source, call, path, status, code, message, details,
  duration_ms AS "durationMs", message_id AS "messageId", credential_id AS "credentialId", address, user_agent AS "userAgent"`;
const PLACE = '(at, number, request_id)';

interface Condition {
  sql: string;
  params: SqlValue[];
}

/** The range of the key that a page covers; `through` is its last row. */
function rangeOf(page: RequestPage, through: Key | null): Condition[] {
  const conditions: Condition[] = [
    { sql: 'account_id = ? AND mode = ? AND at >= ?', params: [page.accountId, page.mode, page.sinceMs] },
  ];
  if (page.untilMs !== null) conditions.push({ sql: 'at <= ?', params: [page.untilMs] });
  if (page.before !== null) conditions.push({ sql: `${PLACE} < (?, ?, ?)`, params: paramsOf(page.before) });
  if (through !== null) conditions.push({ sql: `${PLACE} >= (?, ?, ?)`, params: paramsOf(through) });
  return conditions;
}

function paramsOf({ at, number, requestId }: Key): SqlValue[] {
  return [at, number, requestId];
}

function filtersOf(page: RequestPage): Condition[] {
  const { failed, statuses, method, route } = page;
  const conditions: Condition[] = [];
  const add = (sql: string, value: SqlValue): void => {
    if (value !== null) conditions.push({ sql, params: [value] });
  };
  if (failed !== null) conditions.push({ sql: failed ? 'status >= 400' : 'status < 400', params: [] });
  if (statuses !== null) conditions.push({ sql: 'status BETWEEN ? AND ?', params: [...statuses] });
  add('source = ?', page.source);
  add('credential_id = ?', page.credentialId);
  add('message_id = ?', page.messageId);
  add('code = ?', page.code);
  if (route !== null) {
    const calls = (method === null ? METHODS : [method]).map((one) => `${one} ${route}`);
    conditions.push({ sql: `call IN (${calls.map(() => '?').join(', ')})`, params: calls });
  } else add('call LIKE ?', method === null ? null : `${method} %`);
  return conditions;
}

function readRows(tx: Transaction, page: RequestPage, through: Key | null) {
  const conditions = [...rangeOf(page, through), ...filtersOf(page)];
  return tx.all<RequestRow>(
    `SELECT ${SHOWN} FROM ${page.failed ? failedRows(tx) : 'request_log'} WHERE ${conditions.map(({ sql }) => sql).join(' AND ')}
     ORDER BY at DESC, number DESC, request_id DESC LIMIT ?`,
    ...conditions.flatMap(({ params }) => params),
    page.limit,
  );
}

/** Newest first. For pages without a filter, and for failed requests. */
export const listRequestsOperation = operation('requestLog.list', 'read', (tx, page: RequestPage) =>
  readRows(tx, page, null),
);

/** Returns the matches of the page among the next `rows` rows. */
export const searchRequestsOperation = operation(
  'requestLog.search',
  'search',
  async (tx, { page, rows }: { page: RequestPage; rows: number }): Promise<SearchPart<RequestRow, Key>> => {
    const range = rangeOf(page, null);
    const end = await tx.get<Key>(
      `SELECT at, number, request_id AS "requestId" FROM request_log WHERE ${range.map(({ sql }) => sql).join(' AND ')}
       ORDER BY at DESC, number DESC, request_id DESC LIMIT 1 OFFSET ?`,
      ...range.flatMap(({ params }) => params),
      rows - 1,
    );
    return { found: await readRows(tx, page, end ?? null), end: end ?? null };
  },
);

/** Returns how many successful requests of the hours of a period were omitted; the period is that of a page. */
export const omittedRequestsOperation = operation(
  'requestLog.omitted',
  'read',
  async (tx, { accountId, mode, sinceMs, untilMs }: Owner & Pick<RequestPage, 'sinceMs' | 'untilMs'>) => {
    const row = await tx.get<{ omitted: number }>(
      `SELECT CAST(coalesce(sum(omitted), 0) AS BIGINT) AS omitted FROM request_log_hour
       WHERE account_id = ? AND mode = ? AND hour > ? AND hour <= ?`,
      accountId,
      mode,
      sinceMs - HOUR_MS,
      untilMs ?? Number.MAX_SAFE_INTEGER,
    );
    return row!.omitted;
  },
);

/** Accounts per batch of the removal. */
const OWNERS_AT_ONCE = 50;

export interface RequestRemoval {
  beforeMs: number;
  /** Rows to remove for their age or number per batch. */
  limit: number;
  /** The owner after which this batch starts. */
  after: Owner | null;
}

/** Removes rows that are too old or too many, owner by owner; `next` is undefined after the last. */
export const removeRequestsOperation = operation(
  'requestLog.remove',
  'write',
  async (tx, { beforeMs, limit, after }: RequestRemoval): Promise<{ count: number; next: Owner | undefined }> => {
    let count = 0;
    let owner: Owner | undefined = after ?? { accountId: '', mode: 'live' };
    for (let looked = 0; looked < OWNERS_AT_ONCE; looked += 1) {
      const last: Owner = owner;
      owner = await nextOwner(tx, last);
      if (!owner) return { count, next: undefined };
      const removed = await removeRows(tx, owner, beforeMs, limit);
      count += removed;
      if (removed >= limit) return { count, next: last };
      count += await removeFailedBeyond(tx, owner, KEPT_FAILED);
    }
    return { count, next: owner };
  },
);

/** Steps through the keys from owner to owner. */
async function nextOwner(tx: Transaction, { accountId, mode }: Owner): Promise<Owner | undefined> {
  const next = (name: string): string => `SELECT * FROM (SELECT account_id AS "accountId", mode FROM ${name}
    WHERE (account_id, mode) > (?, ?) ORDER BY account_id, mode LIMIT 1) AS ${name}_next`;
  return tx.get<Owner>(
    `${next('request_log')} UNION ALL ${next('request_log_hour')} ORDER BY 1, 2 LIMIT 1`,
    accountId,
    mode,
    accountId,
    mode,
  );
}

/** Removes the oldest rows that are too old, then successful ones of hours that are over the limit, and expired counts. */
async function removeRows(tx: Transaction, owner: Owner, beforeMs: number, limit: number): Promise<number> {
  const { accountId, mode } = owner;
  const remove = (condition: string, endMs: number, atMost: number) =>
    tx.run(
      `DELETE FROM request_log WHERE account_id = ? AND mode = ? AND (at, number, request_id) IN
         (SELECT at, number, request_id FROM request_log WHERE account_id = ? AND mode = ? AND at < ? ${condition} ORDER BY at LIMIT ?)`,
      accountId,
      mode,
      accountId,
      mode,
      endMs,
      atMost,
    );
  const old = await remove('', beforeMs, limit);
  if (old >= limit) return old;
  const full = await tx.get<{ hour: number }>(
    `SELECT hour FROM (SELECT hour, sum(recorded) OVER (ORDER BY hour DESC) AS total FROM request_log_hour
       WHERE account_id = ? AND mode = ?) AS hours WHERE total > ? ORDER BY hour DESC LIMIT 1`,
    accountId,
    mode,
    KEPT_SUCCEEDED,
  );
  const surplus = full ? await remove('AND status < 400', full.hour, limit - old) : 0;
  await tx.run(
    'DELETE FROM request_log_hour WHERE account_id = ? AND mode = ? AND hour < ?',
    accountId,
    mode,
    beforeMs,
  );
  return old + surplus;
}

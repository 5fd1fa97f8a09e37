/**
 * The rows of refused requests: added in batches, listed newest first, and limited by age and number, removing the oldest first. The key is
 * the order of the list, so a page is one range; adding a row again changes nothing.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { insertMany, type TableRow, table } from '../storage/rows.ts';

/** Maximum number of rows of an account in one mode. */
export const KEPT_ROWS = 5_000;
export const KEPT_MS = 7 * 86_400_000;

const REFUSED_REQUEST = table('refused_request', {
  accountId: 'text',
  mode: 'text',
  at: 'int',
  number: 'int',
  requestId: 'text',
  source: 'text',
  call: 'text?',
  status: 'int',
  code: 'text',
  message: 'text',
  details: 'text',
  credentialId: 'text?',
  address: 'text',
});
export type RefusedRow = TableRow<typeof REFUSED_REQUEST>;

export interface Owner {
  accountId: string;
  mode: Mode;
}

/** Adds rows, and trims these owners to the maximum number of rows. */
export const addRefusedOperation = operation(
  'refusedRequests.add',
  'write',
  async (tx, { rows, trim }: { rows: RefusedRow[]; trim: Owner[] }): Promise<void> => {
    await insertMany(tx, REFUSED_REQUEST, rows, 'ON CONFLICT (account_id, mode, at, number, request_id) DO NOTHING');
    for (const owner of trim) await removeBeyond(tx, owner, KEPT_ROWS);
  },
);

type Key = Pick<RefusedRow, 'at' | 'number' | 'requestId'>;

/** Removes all but the newest `kept` rows. */
async function removeBeyond(tx: Transaction, { accountId, mode }: Owner, kept: number): Promise<number> {
  const first = await tx.get<Key>(
    `SELECT at, number, request_id AS "requestId" FROM refused_request WHERE account_id = ? AND mode = ?
     ORDER BY at DESC, number DESC, request_id DESC LIMIT 1 OFFSET ?`,
    ...[accountId, mode, kept],
  );
  if (!first) return 0;
  return tx.run(
    'DELETE FROM refused_request WHERE account_id = ? AND mode = ? AND (at, number, request_id) <= (?, ?, ?)',
    ...[accountId, mode, first.at, first.number, first.requestId],
  );
}

export interface RefusedPage extends Owner {
  source: 'api' | 'smtp' | null;
  code: string | null;
  /** Unix ms, both inclusive. */
  sinceMs: number;
  untilMs: number | null;
  /** Key of the last row seen. */
  before: Key | null;
  limit: number;
}

const SHOWN = `account_id AS "accountId", mode, at, number, request_id AS "requestId", source, call, status, code, message, details,
  credential_id AS "credentialId", address`;

/** Newest first. */
export const listRefusedOperation = operation('refusedRequests.list', 'read', (tx, page: RefusedPage) => {
  const conditions = ['account_id = ?', 'mode = ?', 'at >= ?'];
  const params: SqlValue[] = [page.accountId, page.mode, page.sinceMs];
  const add = (condition: string, ...values: (SqlValue | undefined)[]): void => {
    if (values.some((value) => value === null || value === undefined)) return;
    conditions.push(condition);
    params.push(...(values as SqlValue[]));
  };
  add('at <= ?', page.untilMs);
  add('source = ?', page.source);
  add('code = ?', page.code);
  add('(at, number, request_id) < (?, ?, ?)', page.before?.at, page.before?.number, page.before?.requestId);
  return tx.all<RefusedRow>(
    `SELECT ${SHOWN} FROM refused_request WHERE ${conditions.join(' AND ')}
     ORDER BY at DESC, number DESC, request_id DESC LIMIT ?`,
    ...[...params, page.limit],
  );
});

/** Accounts per batch of the removal. */
const OWNERS_AT_ONCE = 50;

export interface RefusedRemoval {
  beforeMs: number;
  /** Rows to remove for their age per batch. */
  limit: number;
  /** The owner after which this batch starts. */
  after: Owner | null;
}

/** Removes rows that are too old or too many, owner by owner; `next` is undefined after the last. */
export const removeRefusedOperation = operation(
  'refusedRequests.remove',
  'write',
  async (tx, { beforeMs, limit, after }: RefusedRemoval): Promise<{ count: number; next: Owner | undefined }> => {
    let count = 0;
    let owner: Owner | undefined = after ?? { accountId: '', mode: 'live' };
    for (let looked = 0; looked < OWNERS_AT_ONCE; looked += 1) {
      const last: Owner = owner;
      owner = await nextOwner(tx, last);
      if (!owner) return { count, next: undefined };
      const removed = await removeOlder(tx, owner, beforeMs, limit);
      count += removed + (await removeBeyond(tx, owner, KEPT_ROWS));
      if (removed >= limit) return { count, next: last };
    }
    return { count, next: owner };
  },
);

/** Steps through the key from owner to owner. */
async function nextOwner(tx: Transaction, { accountId, mode }: Owner): Promise<Owner | undefined> {
  return tx.get<Owner>(
    `SELECT account_id AS "accountId", mode FROM refused_request WHERE (account_id, mode) > (?, ?)
     ORDER BY account_id, mode LIMIT 1`,
    ...[accountId, mode],
  );
}

function removeOlder(tx: Transaction, { accountId, mode }: Owner, beforeMs: number, limit: number) {
  return tx.run(
    `DELETE FROM refused_request WHERE account_id = ? AND mode = ? AND (at, number, request_id) IN
       (SELECT at, number, request_id FROM refused_request WHERE account_id = ? AND mode = ? AND at < ? ORDER BY at LIMIT ?)`,
    ...[accountId, mode, accountId, mode, beforeMs, limit],
  );
}

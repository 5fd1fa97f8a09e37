/**
 * Filters of lists, saved under a name. A filter belongs to one mode of an account, and either to one member, who alone sees it, or to all
 * members. A member's filters are deleted with the membership; erasures delete filters that contain the address.
 */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, table } from '../storage/rows.ts';

export interface SavedFilter {
  id: string;
  accountId: string;
  mode: Mode;
  /** The member who alone sees the filter; null if the account shares it. */
  userId: string | null;
  list: string;
  name: string;
  /** JSON object of texts. */
  query: string;
  createdAt: number;
}

/** The user who calls, in one account and mode. */
export interface FilterUser {
  accountId: string;
  mode: Mode;
  userId: string;
  /** Whether the user may change filters that the account shares. */
  mayShare: boolean;
}

const FILTER = table('saved_filter', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  userId: 'text?',
  list: 'text',
  name: 'text',
  query: 'text',
  createdAt: 'int',
});

const COLUMNS =
  'id, account_id AS "accountId", mode, user_id AS "userId", list, name, query, created_at AS "createdAt"';
const VISIBLE = 'account_id = ? AND mode = ? AND (user_id = ? OR user_id IS NULL)';

export interface FilterPage extends Omit<FilterUser, 'mayShare'> {
  /** Only filters of this list; null for all. */
  list: string | null;
  /** Id of the last filter of the previous page; null for the first page. */
  before: string | null;
  limit: number;
}

/** Returns the filters that the user sees, newest first. */
export const savedFiltersOperation = operation('users.savedFilters', 'read', (tx, page: FilterPage) =>
  tx.all<SavedFilter>(
    `SELECT ${COLUMNS} FROM saved_filter WHERE ${VISIBLE} AND list = coalesce(?, list) AND id < ? ORDER BY id DESC LIMIT ?`,
    page.accountId,
    page.mode,
    page.userId,
    page.list,
    page.before ?? 'flt_~',
    page.limit,
  ),
);

type Owner = Pick<SavedFilter, 'accountId' | 'mode' | 'userId'>;

/** The filters of an owner: one member, or the account. */
const ofOwner = ({ accountId, mode, userId }: Owner) =>
  userId === null
    ? { sql: 'account_id = ? AND mode = ? AND user_id IS NULL', params: [accountId, mode] }
    : { sql: 'account_id = ? AND mode = ? AND user_id = ?', params: [accountId, mode, userId] };

/** Makes concurrent changes of an account's filters wait for each other. */
async function lockAccount(tx: Transaction, accountId: string): Promise<void> {
  await tx.get(`SELECT id FROM account WHERE id = ? ${locked(tx)}`, accountId);
}

async function isNameTaken(tx: Transaction, filter: SavedFilter): Promise<boolean> {
  const { sql, params } = ofOwner(filter);
  const other = await tx.get(
    `SELECT 1 AS found FROM saved_filter WHERE ${sql} AND list = ? AND name = ? AND id <> ?`,
    ...params,
    filter.list,
    filter.name,
    filter.id,
  );
  return other !== undefined;
}

/** The name and the query may name a recipient, and erasures do not reach the audit log. */
const auditFields = ({ list, userId }: SavedFilter) => ({ list, shared: userId === null });

/**
 * Stores a filter. `no-member`: the user reads the account through support access. `limit`: the owner already has `most` filters in this
 * mode, even if two calls arrive at the same time.
 */
export const saveFilterOperation = change(
  'users.saveFilter',
  async (
    tx,
    { filter, most }: { filter: SavedFilter; most: number },
  ): Promise<'saved' | 'no-member' | 'name-taken' | 'limit'> => {
    const { accountId, userId } = filter;
    await lockAccount(tx, accountId);
    if (userId !== null) {
      const member = await tx.get(
        `SELECT 1 AS found FROM membership WHERE account_id = ? AND user_id = ? ${locked(tx)}`,
        accountId,
        userId,
      );
      if (member === undefined) return 'no-member';
    }
    if (await isNameTaken(tx, filter)) return 'name-taken';
    const { sql, params } = ofOwner(filter);
    const count = await tx.get<{ n: number }>(`SELECT count(*) AS n FROM saved_filter WHERE ${sql}`, ...params);
    if ((count?.n ?? 0) >= most) return 'limit';
    await insertMany(tx, FILTER, [filter]);
    return 'saved';
  },
  {
    action: 'saved-filter.create',
    resourceId: ({ filter }) => filter.id,
    did: ({ filter }, outcome) => (outcome === 'saved' ? auditFields(filter) : undefined),
  },
);

export interface FilterKey extends FilterUser {
  id: string;
}

const findVisible = (tx: Transaction, { id, accountId, mode, userId }: FilterKey, lock = '') =>
  tx.get<SavedFilter>(
    `SELECT ${COLUMNS} FROM saved_filter WHERE id = ? AND ${VISIBLE} ${lock}`,
    id,
    accountId,
    mode,
    userId,
  );

/** Returns a filter that the user sees. */
export const savedFilterOperation = operation('users.savedFilter', 'read', (tx, key: FilterKey) =>
  findVisible(tx, key),
);

/** `unknown`: the user sees no filter with this id. `shared`: the user may not change what the account shares. */
async function findOwn(tx: Transaction, key: FilterKey): Promise<SavedFilter | 'unknown' | 'shared'> {
  const found = await findVisible(tx, key, locked(tx));
  if (found === undefined) return 'unknown';
  return found.userId === null && !key.mayShare ? 'shared' : found;
}

export interface FilterChange extends FilterKey {
  name?: string | undefined;
  /** JSON object of texts. */
  query?: string | undefined;
}

/** Renames a filter, or replaces its query. */
export const changeFilterOperation = change(
  'users.changeFilter',
  async (tx, args: FilterChange): Promise<SavedFilter | 'unknown' | 'shared' | 'name-taken'> => {
    await lockAccount(tx, args.accountId);
    const found = await findOwn(tx, args);
    if (typeof found === 'string') return found;
    const changed = { ...found, name: args.name ?? found.name, query: args.query ?? found.query };
    if (await isNameTaken(tx, changed)) return 'name-taken';
    await tx.run('UPDATE saved_filter SET name = ?, query = ? WHERE id = ?', changed.name, changed.query, changed.id);
    return changed;
  },
  {
    action: 'saved-filter.update',
    resourceId: ({ id }) => id,
    did: (_, changed) => (typeof changed === 'string' ? undefined : auditFields(changed)),
  },
);

/** Deletes a filter, and returns it. */
export const removeFilterOperation = change(
  'users.removeFilter',
  async (tx, key: FilterKey): Promise<SavedFilter | 'unknown' | 'shared'> => {
    const found = await findOwn(tx, key);
    if (typeof found !== 'string') await tx.run('DELETE FROM saved_filter WHERE id = ?', found.id);
    return found;
  },
  {
    action: 'saved-filter.delete',
    resourceId: ({ id }) => id,
    did: (_, removed) => (typeof removed === 'string' ? undefined : { ...auditFields(removed), deleted: true }),
  },
);

/**
 * Stores the suppression list: one row per account, mode, and normalized address (lower case, A-label domain). An erased address has no row
 * here. Its erasure keeps a hash of the address, and a lookup finds it only if the caller passes that hash.
 */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import type { SearchPart } from '../storage/searches.ts';

export type SuppressionReason = 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
export const SUPPRESSION_REASONS: SuppressionReason[] = ['bounce', 'complaint', 'unsubscribe', 'manual'];

export interface ListKey {
  accountId: string;
  mode: Mode;
}

export interface Suppression {
  /** The normalized address. */
  email: string;
  reason: SuppressionReason;
  sourceMessageId: string | null;
  /** Unix ms. */
  expiresAt: number | null;
  createdAt: number;
}

const COLUMNS =
  'email, reason, source_message_id AS "sourceMessageId", expires_at AS "expiresAt", created_at AS "createdAt"';

export interface SuppressionEntry extends ListKey, Suppression {}

/** An entry that was found; `isErased` if only the hash of its address is stored. */
export type FoundSuppression = Suppression & { isErased?: true };

/** Ranks the reasons for an address: the one with the larger number stays. */
export const REASON_STRENGTH: Readonly<Record<SuppressionReason, number>> = {
  manual: 1,
  bounce: 2,
  unsubscribe: 3,
  complaint: 4,
};
const strength = (column: string): string => {
  const cases = Object.entries(REASON_STRENGTH).map(([reason, number]) => `WHEN '${reason}' THEN ${number}`);
  return `(CASE ${column} ${cases.join(' ')} END)`;
};
const IN_FORCE = '(suppression.expires_at IS NULL OR suppression.expires_at > excluded.created_at)';
/** The stored reason stays, with its message and its date: it is stronger, or the same without a message that proves it again. */
const STAYS = `${IN_FORCE} AND (${strength('suppression.reason')} > ${strength('excluded.reason')}
  OR suppression.reason = excluded.reason AND excluded.source_message_id IS NULL)`;

/** Adds an entry. If the address is already on the list, an expired entry is replaced, and an active one is merged: see `suppress`. */
const UPSERT = `INSERT INTO suppression (account_id, mode, email, reason, source_message_id, expires_at, created_at)
  VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account_id, mode, email) DO UPDATE SET
    reason = CASE WHEN ${STAYS} THEN suppression.reason ELSE excluded.reason END,
    source_message_id = CASE WHEN ${STAYS} THEN suppression.source_message_id ELSE excluded.source_message_id END,
    expires_at = CASE WHEN NOT ${IN_FORCE} THEN excluded.expires_at
      WHEN suppression.expires_at IS NULL OR suppression.expires_at > excluded.expires_at THEN suppression.expires_at
      ELSE excluded.expires_at END,
    created_at = CASE WHEN ${STAYS} THEN suppression.created_at ELSE excluded.created_at END
  RETURNING ${COLUMNS}`;

/** Returns the entry for an address that is suppressed for two reasons: with the stronger reason and the later expiry. */
export function mergedEntry<T extends Suppression>(one: T, other: T): T {
  const stronger = REASON_STRENGTH[other.reason] > REASON_STRENGTH[one.reason] ? other : one;
  const expiresAt =
    one.expiresAt === null || other.expiresAt === null ? null : Math.max(one.expiresAt, other.expiresAt);
  return { ...stronger, expiresAt };
}

/**
 * Adds addresses to lists, within the caller's transaction. If an address is already on its list, the stronger reason and the later expiry
 * are kept. Times are compared with `createdAt`. Returns the resulting entries, sorted by address.
 */
export async function suppress(tx: Transaction, entries: readonly SuppressionEntry[]): Promise<Suppression[]> {
  // Rows are written in a fixed order, so two transactions do not deadlock.
  const sorted = entries.toSorted((a, b) => (a.email < b.email ? -1 : 1));
  const added = sorted.map((one) =>
    tx.get<Suppression>(
      UPSERT,
      one.accountId,
      one.mode,
      one.email,
      one.reason,
      one.sourceMessageId,
      one.expiresAt,
      one.createdAt,
    ),
  );
  return (await Promise.all(added)) as Suppression[];
}

/** Returns the entry of an address; undefined if it is not on the list, or has expired. */
export async function findSuppression(
  tx: Transaction,
  { accountId, mode, email, addressHash, nowMs }: ListedAddress & { nowMs: number },
): Promise<FoundSuppression | undefined> {
  const listed = await tx.get<Suppression>(
    `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
       AND (expires_at IS NULL OR expires_at > ?)`,
    accountId,
    mode,
    email,
    nowMs,
  );
  if (listed !== undefined || addressHash === undefined) return listed;
  const erased = await tx.get<Pick<Suppression, 'reason' | 'createdAt'>>(
    `SELECT reason, created_at AS "createdAt" FROM erasure
     WHERE account_id = ? AND mode = ? AND address_hash = ? AND is_suppressed = 1 ORDER BY id DESC LIMIT 1`,
    accountId,
    mode,
    addressHash,
  );
  return erased && { email, ...erased, sourceMessageId: null, expiresAt: null, isErased: true };
}

export interface ListedAddress extends ListKey {
  /** The normalized address. */
  email: string;
  /** Hash of the address; without it, an erased address is not recognized. */
  addressHash?: string | undefined;
}

const keyOf = ({ accountId, mode, email }: ListedAddress): string => `${accountId} ${mode} ${email}`;

/**
 * Returns a function that returns when the suppression of an address ends, in Unix ms: 0 if the address is not suppressed, infinity if its
 * suppression does not expire.
 */
export async function suppressedUntil(
  tx: Transaction,
  addresses: readonly ListedAddress[],
): Promise<(address: ListedAddress) => number> {
  if (addresses.length === 0) return () => 0;
  const columns = { accountId: 'text', mode: 'text', email: 'text' } as const;
  const requested = rowset(tx, 'requested', columns, addresses);
  const [listed, erased] = await Promise.all([
    tx.all<ListedAddress & { expiresAt: number | null }>(
      `SELECT s.account_id AS "accountId", s.mode, s.email, s.expires_at AS "expiresAt" FROM ${requested.sql}
         JOIN suppression s ON s.account_id = requested.account_id AND s.mode = requested.mode AND s.email = requested.email`,
      ...requested.params,
    ),
    erasedAmong(tx, addresses),
  ]);
  const ends = new Map(listed.map((row) => [keyOf(row), row.expiresAt ?? Number.POSITIVE_INFINITY]));
  for (const row of erased) ends.set(keyOf(row), Number.POSITIVE_INFINITY);
  return (address) => ends.get(keyOf(address)) ?? 0;
}

/** Returns the addresses that are suppressed by their hash. */
async function erasedAmong(tx: Transaction, addresses: readonly ListedAddress[]): Promise<ListedAddress[]> {
  // Without erasures, the addresses of each send need not be looked up a second time.
  if (tx.dialect === 'sqlite' && (await tx.get('SELECT 1 AS found FROM erasure LIMIT 1')) === undefined) return [];
  const columns = { accountId: 'text', mode: 'text', email: 'text', addressHash: 'text' } as const;
  const hashed = addresses.flatMap(({ addressHash, ...one }) =>
    addressHash === undefined ? [] : [{ ...one, addressHash }],
  );
  if (hashed.length === 0) return [];
  const requested = rowset(tx, 'requested', columns, hashed);
  return tx.all<ListedAddress>(
    `SELECT requested.account_id AS "accountId", requested.mode, requested.email FROM ${requested.sql}
       JOIN erasure x ON x.account_id = requested.account_id AND x.mode = requested.mode AND x.address_hash = requested.address_hash
     WHERE x.is_suppressed = 1`,
    ...requested.params,
  );
}

/** The audit log is kept for 400 days and cannot be changed. It identifies an address by its hash, so it never contains an erased one. */
const SUPPRESSION_TRAIL = { table: 'suppression', shows: ['reason', 'source_message_id', 'expires_at', 'created_at'] };

/** An address with the hash that identifies it in the audit log. */
type HashedAddress = ListedAddress & { addressHash: string };

function keyColumns({ accountId, mode, email }: ListedAddress) {
  return { account_id: accountId, mode, email };
}

interface NewEntry extends ListKey {
  suppression: Suppression;
  addressHash: string;
}

/** Suppresses one address and returns its entry. The address of an erased recipient is not stored again. */
export const suppressOperation = change(
  'suppressions.add',
  async (tx, { suppression, addressHash, ...list }: NewEntry): Promise<Suppression> => {
    const { email, createdAt: nowMs } = suppression;
    const known = await findSuppression(tx, { ...list, email, addressHash, nowMs });
    if (known?.isErased) return withoutMark(known);
    return (await suppress(tx, [{ ...list, ...suppression }]))[0]!;
  },
  {
    ...SUPPRESSION_TRAIL,
    action: 'suppression.add',
    where: ({ suppression: { email }, ...list }) => keyColumns({ ...list, email }),
    resourceId: ({ addressHash }) => addressHash,
  },
);

function withoutMark({ isErased: _, ...entry }: FoundSuppression): Suppression {
  return entry;
}

/** Adds different addresses, or merges them with their entries: see `suppress`. Returns how many were added or changed. */
export const importOperation = operation(
  'suppressions.import',
  'write',
  async (
    tx,
    {
      nowMs,
      suppressions,
      ...list
    }: ListKey & { nowMs: number; suppressions: (Suppression & { addressHash?: string })[] },
  ) => {
    const known = await Promise.all(
      suppressions.map(({ email, addressHash }) => findSuppression(tx, { ...list, email, addressHash, nowMs })),
    );
    const changed = suppressions.filter((one, index) => {
      const entry = known[index];
      if (entry === undefined) return true;
      const { reason, expiresAt } = mergedEntry<Suppression>(entry, one);
      return !entry.isErased && (reason !== entry.reason || expiresAt !== entry.expiresAt);
    });
    await suppress(
      tx,
      changed.map((one) => ({ ...list, ...one })),
    );
    return changed.length;
  },
);

export const findSuppressionOperation = operation('suppressions.find', 'read', findSuppression);

/** Returns which of these addresses are suppressed, normalized. */
export const suppressedAmongOperation = operation(
  'suppressions.among',
  'read',
  async (tx, { addresses, nowMs }: { addresses: ListedAddress[]; nowMs: number }): Promise<string[]> => {
    const untilMs = await suppressedUntil(tx, addresses);
    return addresses.filter((one) => untilMs(one) > nowMs).map(({ email }) => email);
  },
);

/**
 * Which entry was removed: that of a listed address, or that of an erased address, of which only the hash is stored. Null if there was
 * none.
 */
export type UnsuppressResult = 'listed' | 'erased' | null;

/** Removes an address from the list; returns null if it is not on the list, or if its entry has expired. */
export const unsuppressOperation = change(
  'suppressions.remove',
  async (tx, args: HashedAddress & { nowMs: number }): Promise<UnsuppressResult> => {
    const changed = await tx.run(
      `DELETE FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
         AND (expires_at IS NULL OR expires_at > ?)`,
      args.accountId,
      args.mode,
      args.email,
      args.nowMs,
    );
    const erased = await tx.run(
      'UPDATE erasure SET is_suppressed = 0 WHERE account_id = ? AND mode = ? AND address_hash = ? AND is_suppressed = 1',
      args.accountId,
      args.mode,
      args.addressHash,
    );
    return changed === 1 ? 'listed' : erased > 0 ? 'erased' : null;
  },
  {
    ...SUPPRESSION_TRAIL,
    action: 'suppression.delete',
    where: (address) => keyColumns(address),
    resourceId: ({ addressHash }) => addressHash,
    did: (_, removed) => (removed === 'erased' ? { suppressed: false } : undefined),
  },
);

/** Position of a row in the list, by time and address. */
type Place = Pick<Suppression, 'createdAt' | 'email'>;

export interface SuppressionPage extends ListKey {
  nowMs: number;
  /** The last row of the previous page. */
  after: Place | null;
  limit: number;
  /** Part of a normalized address. */
  email?: string | null;
  reason?: SuppressionReason | null;
  /** The last row to examine. */
  through?: Place | null;
}

/** Returns the position of the row that ends a batch of `rows`, expired ones included, newest first; null if there are fewer. */
async function partEnd(tx: Transaction, page: SuppressionPage, rows: number): Promise<Place | null> {
  const createdAt = page.after?.createdAt ?? Number.MAX_SAFE_INTEGER;
  const found = await tx.get<Place>(
    `SELECT created_at AS "createdAt", email FROM suppression WHERE account_id = ? AND mode = ?
       AND (created_at < ? OR (created_at = ? AND email < ?)) ORDER BY created_at DESC, email DESC LIMIT 1 OFFSET ?`,
    page.accountId,
    page.mode,
    createdAt,
    createdAt,
    page.after?.email ?? '',
    rows - 1,
  );
  return found ?? null;
}

/** Returns active entries, newest first. */
async function listSuppressions(tx: Transaction, page: SuppressionPage): Promise<Suppression[]> {
  const createdAt = page.after?.createdAt ?? Number.MAX_SAFE_INTEGER;
  const { accountId, mode, nowMs, email, reason, through } = page;
  const filters: [condition: string, ...SqlValue[]][] = [];
  if (through)
    filters.push([
      '(created_at > ? OR (created_at = ? AND email >= ?))',
      through.createdAt,
      through.createdAt,
      through.email,
    ]);
  // An address contains the text if removing the text changes the address.
  if (email) filters.push(["replace(email, ?, '') <> email", email]);
  if (reason) filters.push(['reason = ?', reason]);
  return tx.all<Suppression>(
    `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NULL OR expires_at > ?)
         AND (created_at < ? OR (created_at = ? AND email < ?)) ${filters.map(([one]) => `AND ${one}`).join(' ')}
       ORDER BY created_at DESC, email DESC LIMIT ?`,
    accountId,
    mode,
    nowMs,
    createdAt,
    createdAt,
    page.after?.email ?? '',
    ...filters.flatMap(([, ...values]) => values),
    page.limit,
  );
}

export const suppressionsOperation = operation('suppressions.list', 'read', listSuppressions);

/** Returns the matches of the page within this batch of entries. */
export const searchSuppressionsOperation = operation(
  'suppressions.search',
  'search',
  async (tx, { page, rows }: { page: SuppressionPage; rows: number }): Promise<SearchPart<Suppression, Place>> => {
    const end = await partEnd(tx, page, rows);
    return { found: await listSuppressions(tx, { ...page, through: end }), end };
  },
);

/** Returns active entries in the order of the addresses, for the export. */
export const suppressionsByEmailOperation = operation(
  'suppressions.byEmail',
  'read',
  async (tx, args: ListKey & { nowMs: number; after: string; limit: number }): Promise<Suppression[]> =>
    tx.all<Suppression>(
      `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND email > ?
         AND (expires_at IS NULL OR expires_at > ?) ORDER BY email LIMIT ?`,
      args.accountId,
      args.mode,
      args.after,
      args.nowMs,
      args.limit,
    ),
);

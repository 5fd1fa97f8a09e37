/** The rows of the suppression list: one per account, mode, and normalized address (lower case, A-label domain). */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import type { SearchPart } from '../storage/searches.ts';

export type SuppressionReason = 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
export const SUPPRESSION_REASONS: SuppressionReason[] = ['bounce', 'complaint', 'unsubscribe', 'manual'];

export interface ListOf {
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

export interface SuppressionEntry extends ListOf, Suppression {}

/** A recipient's own request is stronger than a server's reply, which is stronger than a manual entry. */
const strength = (column: string): string => `(CASE ${column} WHEN 'manual' THEN 1 WHEN 'bounce' THEN 2 ELSE 3 END)`;
const IN_FORCE = '(suppression.expires_at IS NULL OR suppression.expires_at > excluded.created_at)';
const IS_STRONGER = `${IN_FORCE} AND ${strength('suppression.reason')} > ${strength('excluded.reason')}`;

/** The rule for an address that is already on the list: an expired entry is replaced; otherwise see `suppress`. */
const UPSERT = `INSERT INTO suppression (account_id, mode, email, reason, source_message_id, expires_at, created_at)
  VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account_id, mode, email) DO UPDATE SET
    reason = CASE WHEN ${IS_STRONGER} THEN suppression.reason ELSE excluded.reason END,
    source_message_id = CASE WHEN ${IS_STRONGER} THEN suppression.source_message_id ELSE excluded.source_message_id END,
    expires_at = CASE WHEN NOT ${IN_FORCE} THEN excluded.expires_at
      WHEN suppression.expires_at IS NULL OR suppression.expires_at > excluded.expires_at THEN suppression.expires_at
      ELSE excluded.expires_at END,
    created_at = excluded.created_at
  RETURNING ${COLUMNS}`;

/**
 * Adds addresses to lists, within the caller's transaction. If an address is already on its list, the stronger reason and the later expiry
 * are kept. Times are compared with `createdAt`. Returns the resulting entries, sorted by address.
 */
export async function suppress(tx: Transaction, entries: readonly SuppressionEntry[]): Promise<Suppression[]> {
  // In a fixed order, so that two transactions do not deadlock.
  const sorted = entries.toSorted((a, b) => (a.email < b.email ? -1 : 1));
  const added = sorted.map((one) =>
    tx.get<Suppression>(
      UPSERT,
      ...[one.accountId, one.mode, one.email, one.reason, one.sourceMessageId, one.expiresAt, one.createdAt],
    ),
  );
  return (await Promise.all(added)) as Suppression[];
}

/** Returns the entry of an address; undefined if it is not on the list, or has expired. */
export function findSuppression(
  tx: Transaction,
  { accountId, mode, email, nowMs }: ListOf & { email: string; nowMs: number },
) {
  return tx.get<Suppression>(
    `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
       AND (expires_at IS NULL OR expires_at > ?)`,
    ...[accountId, mode, email, nowMs],
  );
}

export interface ListedAddress extends ListOf {
  /** The normalized address. */
  email: string;
}

const keyOf = ({ accountId, mode, email }: ListedAddress): string => `${accountId} ${mode} ${email}`;

/** Returns until when an address is suppressed, in Unix ms; 0 if it is not, infinite without an expiry. */
export async function suppressedUntil(
  tx: Transaction,
  addresses: readonly ListedAddress[],
): Promise<(address: ListedAddress) => number> {
  if (addresses.length === 0) return () => 0;
  const requested = rowset(tx, 'asked', { accountId: 'text', mode: 'text', email: 'text' }, addresses);
  const rows = await tx.all<ListedAddress & { expiresAt: number | null }>(
    `SELECT s.account_id AS "accountId", s.mode, s.email, s.expires_at AS "expiresAt" FROM ${requested.sql}
       JOIN suppression s ON s.account_id = asked.account_id AND s.mode = asked.mode AND s.email = asked.email`,
    ...requested.params,
  );
  const ends = new Map(rows.map((row) => [keyOf(row), row.expiresAt ?? Number.POSITIVE_INFINITY]));
  return (address) => ends.get(keyOf(address)) ?? 0;
}

const SUPPRESSION_TRAIL = { table: 'suppression', shows: ['email', 'reason', 'source_message_id', 'expires_at'] };

function keyColumns({ accountId, mode, email }: ListedAddress) {
  return { account_id: accountId, mode, email };
}

/** `suppress` for one address; returns its entry. */
export const suppressOperation = change(
  'suppressions.add',
  async (tx, { suppression, ...list }: ListOf & { suppression: Suppression }): Promise<Suppression> =>
    (await suppress(tx, [{ ...list, ...suppression }]))[0]!,
  {
    ...SUPPRESSION_TRAIL,
    action: 'suppression.add',
    where: ({ suppression, ...list }) => keyColumns({ ...list, email: suppression.email }),
  },
);

/** Adds addresses that are not actively suppressed; returns how many were added. */
export const importOperation = operation(
  'suppressions.import',
  'write',
  async (tx, { nowMs, suppressions, ...list }: ListOf & { nowMs: number; suppressions: Suppression[] }) => {
    const known = await Promise.all(suppressions.map(({ email }) => findSuppression(tx, { ...list, email, nowMs })));
    const added = new Map<string, SuppressionEntry>();
    for (const [index, one] of suppressions.entries())
      if (known[index] === undefined && !added.has(one.email)) added.set(one.email, { ...list, ...one });
    await suppress(tx, [...added.values()]);
    return added.size;
  },
);

export const findSuppressionOperation = operation('suppressions.find', 'read', findSuppression);

/** Returns which of these normalized addresses are suppressed. */
export const suppressedAmongOperation = operation(
  'suppressions.among',
  'read',
  async (tx, { keys, ...list }: ListOf & { keys: string[]; nowMs: number }): Promise<string[]> => {
    const found = await Promise.all(keys.map((email) => findSuppression(tx, { ...list, email })));
    return keys.filter((_, index) => found[index] !== undefined);
  },
);

/** Returns false if the address is not on the list, or has expired. */
export const unsuppressOperation = change(
  'suppressions.remove',
  async (tx, args: ListOf & { email: string; nowMs: number }): Promise<boolean> => {
    const changed = await tx.run(
      `DELETE FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
         AND (expires_at IS NULL OR expires_at > ?)`,
      ...[args.accountId, args.mode, args.email, args.nowMs],
    );
    return changed === 1;
  },
  { ...SUPPRESSION_TRAIL, action: 'suppression.delete', where: (entry) => keyColumns(entry) },
);

/** Position of a row in the list, by time and address. */
type Place = Pick<Suppression, 'createdAt' | 'email'>;

export interface SuppressionPage extends ListOf {
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
    ...[page.accountId, page.mode, createdAt, createdAt, page.after?.email ?? '', rows - 1],
  );
  return found ?? null;
}

/** Returns active entries, newest first. */
async function listSuppressions(tx: Transaction, page: SuppressionPage): Promise<Suppression[]> {
  const createdAt = page.after?.createdAt ?? Number.MAX_SAFE_INTEGER;
  const { accountId, mode, nowMs, email, reason, through } = page;
  const wishes: [condition: string, ...SqlValue[]][] = [];
  if (through)
    wishes.push([
      '(created_at > ? OR (created_at = ? AND email >= ?))',
      ...[through.createdAt, through.createdAt, through.email],
    ]);
  // A text contains another if removing the other changes it.
  if (email) wishes.push(["replace(email, ?, '') <> email", email]);
  if (reason) wishes.push(['reason = ?', reason]);
  return tx.all<Suppression>(
    `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NULL OR expires_at > ?)
         AND (created_at < ? OR (created_at = ? AND email < ?)) ${wishes.map(([one]) => `AND ${one}`).join(' ')}
       ORDER BY created_at DESC, email DESC LIMIT ?`,
    ...[accountId, mode, nowMs, createdAt, createdAt, page.after?.email ?? ''],
    ...wishes.flatMap(([, ...values]) => values),
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
  async (tx, args: ListOf & { nowMs: number; after: string; limit: number }): Promise<Suppression[]> =>
    tx.all<Suppression>(
      `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND email > ?
         AND (expires_at IS NULL OR expires_at > ?) ORDER BY email LIMIT ?`,
      ...[args.accountId, args.mode, args.after, args.nowMs, args.limit],
    ),
);

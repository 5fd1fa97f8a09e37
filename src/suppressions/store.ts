/** The rows of the suppression list: one per account, mode and address key (lower case, A-label domain). */
import type { Mode } from '../base/mode.ts';
import { locked, operation, type SqlValue } from '../storage/operation.ts';

export type SuppressionReason = 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
export const SUPPRESSION_REASONS: SuppressionReason[] = ['bounce', 'complaint', 'unsubscribe', 'manual'];

export interface ListOf {
  accountId: string;
  mode: Mode;
}

export interface Suppression {
  /** The key that addresses are compared by. */
  email: string;
  reason: SuppressionReason;
  sourceMessageId: string | null;
  /** Unix ms. */
  expiresAt: number | null;
  createdAt: number;
}

const COLUMNS =
  'email, reason, source_message_id AS "sourceMessageId", expires_at AS "expiresAt", created_at AS "createdAt"';

/** Whose wish it was counts for more than what a server said, and that for more than what was entered by hand. */
const STRENGTH: Record<SuppressionReason, number> = { manual: 1, bounce: 2, unsubscribe: 3, complaint: 3 };

/** The stronger reason of two entries and the later end. */
function strongerOf(known: Suppression, added: Suppression): Suppression {
  const reasoned = STRENGTH[added.reason] >= STRENGTH[known.reason] ? added : known;
  const isEndless = known.expiresAt === null || added.expiresAt === null;
  const expiresAt = isEndless ? null : Math.max(known.expiresAt!, added.expiresAt!);
  return { ...reasoned, expiresAt, createdAt: added.createdAt };
}

/**
 * Adds an address; where it is on the list already the stronger reason and the later end stay. Times are judged by
 * `createdAt`. Answers the entry as it is then.
 */
export const suppressOperation = operation(
  'suppressions.add',
  'write',
  async (tx, args: ListOf & { suppression: Suppression }): Promise<Suppression> => {
    const known = await tx.get<Suppression>(
      `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
         AND (expires_at IS NULL OR expires_at > ?) ${locked(tx)}`,
      args.accountId,
      args.mode,
      args.suppression.email,
      args.suppression.createdAt,
    );
    const suppression = known ? strongerOf(known, args.suppression) : args.suppression;
    await tx.run(
      `INSERT INTO suppression (account_id, mode, email, reason, source_message_id, expires_at, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account_id, mode, email) DO UPDATE SET reason = excluded.reason,
         source_message_id = excluded.source_message_id, expires_at = excluded.expires_at,
         created_at = excluded.created_at`,
      args.accountId,
      args.mode,
      suppression.email,
      suppression.reason,
      suppression.sourceMessageId,
      suppression.expiresAt,
      suppression.createdAt,
    );
    return suppression;
  },
);

/** Adds addresses that are not in force on the list yet; answers how many were added. */
export const importOperation = operation(
  'suppressions.import',
  'write',
  async (tx, args: ListOf & { nowMs: number; suppressions: Suppression[] }): Promise<number> => {
    let added = 0;
    for (const one of args.suppressions) {
      added += await tx.run(
        `INSERT INTO suppression (account_id, mode, email, reason, source_message_id, expires_at, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account_id, mode, email) DO UPDATE SET reason = excluded.reason,
           source_message_id = NULL, expires_at = excluded.expires_at, created_at = excluded.created_at
           WHERE suppression.expires_at <= ?`,
        args.accountId,
        args.mode,
        one.email,
        one.reason,
        one.sourceMessageId,
        one.expiresAt,
        one.createdAt,
        args.nowMs,
      );
    }
    return added;
  },
);

/** The entry of an address; undefined when it is not on the list, or no longer in force there. */
export const findSuppressionOperation = operation(
  'suppressions.find',
  'read',
  (tx, args: ListOf & { email: string; nowMs: number }) =>
    tx.get<Suppression>(
      `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
         AND (expires_at IS NULL OR expires_at > ?)`,
      args.accountId,
      args.mode,
      args.email,
      args.nowMs,
    ),
);

/** False when the address is not on the list, or no longer in force there. */
export const unsuppressOperation = operation(
  'suppressions.remove',
  'write',
  async (tx, args: ListOf & { email: string; nowMs: number }): Promise<boolean> => {
    const changed = await tx.run(
      `DELETE FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
         AND (expires_at IS NULL OR expires_at > ?)`,
      args.accountId,
      args.mode,
      args.email,
      args.nowMs,
    );
    return changed === 1;
  },
);

export interface SuppressionPage extends ListOf {
  nowMs: number;
  /** The last row of the page in front, by time and address. */
  after: { createdAt: number; email: string } | null;
  limit: number;
  /** A part of the address, as keys are written. */
  email?: string | null;
  reason?: SuppressionReason | null;
  /** The last row to look at. */
  through?: { createdAt: number; email: string } | null;
}

/** Place of the row that ends a part of so many, in force or not, newest first; null where there are fewer. */
export const suppressionsPartOperation = operation(
  'suppressions.part',
  'read',
  async (tx, { page, rows }: { page: SuppressionPage; rows: number }) => {
    const createdAt = page.after?.createdAt ?? Number.MAX_SAFE_INTEGER;
    const found = await tx.get<{ createdAt: number; email: string }>(
      `SELECT created_at AS "createdAt", email FROM suppression WHERE account_id = ? AND mode = ?
         AND (created_at < ? OR (created_at = ? AND email < ?)) ORDER BY created_at DESC, email DESC LIMIT 1 OFFSET ?`,
      ...[page.accountId, page.mode, createdAt, createdAt, page.after?.email ?? '', rows - 1],
    );
    return found ?? null;
  },
);

/** In force, newest first. */
export const suppressionsOperation = operation(
  'suppressions.list',
  'read',
  async (tx, page: SuppressionPage): Promise<Suppression[]> => {
    const createdAt = page.after?.createdAt ?? Number.MAX_SAFE_INTEGER;
    const { accountId, mode, nowMs, email, reason, through } = page;
    const wishes: [condition: string, ...SqlValue[]][] = [];
    if (through)
      wishes.push([
        '(created_at > ? OR (created_at = ? AND email >= ?))',
        ...[through.createdAt, through.createdAt, through.email],
      ]);
    // A text contains another one when taking it out changes it.
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
  },
);

/** In force, in the order of the addresses; for the export. */
export const suppressionsByEmailOperation = operation(
  'suppressions.byEmail',
  'read',
  async (tx, args: ListOf & { nowMs: number; after: string; limit: number }): Promise<Suppression[]> =>
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

/** The rows of the suppression list: one per account, mode and address key (lower case, A-label domain). */
import type { Mode } from '../base/mode.ts';
import { locked, operation } from '../storage/operation.ts';

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
}

/** In force, newest first. */
export const suppressionsOperation = operation(
  'suppressions.list',
  'read',
  async (tx, page: SuppressionPage): Promise<Suppression[]> => {
    const createdAt = page.after?.createdAt ?? Number.MAX_SAFE_INTEGER;
    return tx.all<Suppression>(
      `SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NULL OR expires_at > ?)
         AND (created_at < ? OR (created_at = ? AND email < ?)) ORDER BY created_at DESC, email DESC LIMIT ?`,
      page.accountId,
      page.mode,
      page.nowMs,
      createdAt,
      createdAt,
      page.after?.email ?? '',
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

/**
 * Stores the links that show a message to anyone who has them. A link works while its row exists, so deleting the row revokes it
 * immediately. Rows are deleted with their message (after it, because a link that is being created locks its message), and by housekeeping
 * once they have expired. The token of a link is not stored.
 */
import { change } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';
import type { ShareTimes } from '../http/share-links.ts';
import { locked, operation } from '../storage/operation.ts';
import { insertMany, table } from '../storage/rows.ts';
import type { MessageKey } from './api-store.ts';

export interface ShareRow extends MessageKey, ShareTimes {
  id: string;
  /** 1 if hidden. */
  hideSubject: number;
  /** 1 if hidden. */
  hideContent: number;
}

const SHARE = table('message_share', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  messageId: 'text',
  hideSubject: 'int',
  hideContent: 'int',
  createdAt: 'int',
  expiresAt: 'int',
  createdByKind: 'text',
  createdById: 'text?',
  createdByName: 'text?',
});

const COLUMNS = `id, account_id AS "accountId", mode, message_id AS "messageId", hide_subject AS "hideSubject",
  hide_content AS "hideContent", created_at AS "createdAt", expires_at AS "expiresAt", created_by_kind AS "createdByKind",
  created_by_id AS "createdById", created_by_name AS "createdByName"`;

interface NewShare {
  share: ShareRow;
  /** Maximum number of valid links of a message. */
  most: number;
}

/** Stores a link. Two calls at the same time do not exceed the limit. */
export const createShareOperation = change(
  'messages.createShare',
  async (tx, { share, most }: NewShare): Promise<'created' | 'no-message' | 'limit'> => {
    const { accountId, mode, messageId } = share;
    // A transaction that deletes the message waits for this lock, and then deletes this row too.
    const message = await tx.get(
      `SELECT 1 AS found FROM message WHERE account_id = ? AND mode = ? AND id = ? ${locked(tx)}`,
      accountId,
      mode,
      messageId,
    );
    if (message === undefined) return 'no-message';
    const valid = await tx.get<{ n: number }>(
      'SELECT count(*) AS n FROM message_share WHERE message_id = ? AND account_id = ? AND mode = ? AND expires_at > ?',
      messageId,
      accountId,
      mode,
      share.createdAt,
    );
    if ((valid?.n ?? 0) >= most) return 'limit';
    await insertMany(tx, SHARE, [share]);
    return 'created';
  },
  {
    action: 'message.share',
    resourceId: ({ share }) => share.messageId,
    did: ({ share }, outcome) => (outcome === 'created' ? auditFields(share) : undefined),
  },
);

function auditFields({ id, expiresAt, hideSubject, hideContent }: ShareRow) {
  return { shareId: id, expiresAt: iso(expiresAt), hideSubject: hideSubject === 1, hideContent: hideContent === 1 };
}

export interface ShareKey {
  accountId: string;
  mode: Mode;
  id: string;
}

/** Returns whether the link was neither revoked nor deleted. */
export const isSharedOperation = operation(
  'messages.isShared',
  'read',
  async (tx, { id, accountId, mode, messageId }: ShareKey & MessageKey): Promise<boolean> => {
    const found = await tx.get(
      'SELECT 1 AS found FROM message_share WHERE id = ? AND account_id = ? AND mode = ? AND message_id = ?',
      id,
      accountId,
      mode,
      messageId,
    );
    return found !== undefined;
  },
);

export interface SharePage {
  accountId: string;
  mode: Mode;
  /** Only links of this message; null for all. */
  messageId: string | null;
  /** Id of the last link of the previous page; null for the first page. */
  before: string | null;
  limit: number;
  nowMs: number;
}

/** Returns valid links, newest first. */
export const listSharesOperation = operation('messages.listShares', 'read', (tx, page: SharePage) => {
  const ofMessage = page.messageId === null ? '' : 'message_id = ? AND';
  return tx.all<ShareRow>(
    `SELECT ${COLUMNS} FROM message_share WHERE ${ofMessage} account_id = ? AND mode = ? AND expires_at > ? AND id < ?
     ORDER BY id DESC LIMIT ?`,
    ...(page.messageId === null ? [] : [page.messageId]),
    page.accountId,
    page.mode,
    page.nowMs,
    page.before ?? 'shr_~',
    page.limit,
  );
});

/** Deletes a valid link, so that it stops working; returns undefined if there is no such link. */
export const revokeShareOperation = change(
  'messages.revokeShare',
  async (tx, { id, accountId, mode, nowMs }: ShareKey & { nowMs: number }): Promise<ShareRow | undefined> =>
    tx.get<ShareRow>(
      `DELETE FROM message_share WHERE id = ? AND account_id = ? AND mode = ? AND expires_at > ? RETURNING ${COLUMNS}`,
      id,
      accountId,
      mode,
      nowMs,
    ),
  {
    action: 'message.revoke-share',
    resourceId: (_key, revoked) => revoked?.messageId ?? null,
    did: (_key, revoked) => revoked && { ...auditFields(revoked), revoked: true },
  },
);

/** Deletes links that have expired; returns how many. */
export const removeSharesOperation = operation(
  'messages.removeShares',
  'write',
  (tx, { nowMs, limit }: { nowMs: number; limit: number }) =>
    tx.run(
      'DELETE FROM message_share WHERE id IN (SELECT id FROM message_share WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)',
      nowMs,
      limit,
    ),
);

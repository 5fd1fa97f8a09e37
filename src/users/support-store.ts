/** Support access: which operator session can read which account, and until when. Rows end with the session. */
import { readAccount } from '../accounts/accounts.ts';
import { change } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import type { Transaction } from '../storage/operation.ts';
import type { Membership } from './user.ts';

export interface SupportAccess {
  sessionId: string;
  userId: string;
  accountId: string;
  untilMs: number;
}

/**
 * Starts or extends support access. `member`: the user can already read the account. `unknown`: the account or the session does not exist.
 */
export const startSupportAccessOperation = change(
  'users.startSupportAccess',
  async (tx, { sessionId, userId, accountId, untilMs }: SupportAccess): Promise<'started' | 'member' | 'unknown'> => {
    const member = await tx.get(
      'SELECT 1 AS found FROM membership WHERE account_id = ? AND user_id = ?',
      accountId,
      userId,
    );
    if (member !== undefined) return 'member';
    const changed = await tx.run(
      `INSERT INTO support_access (session_id, account_id, expires_at)
       SELECT s.id, a.id, CAST(? AS BIGINT) FROM user_session s, account a WHERE s.id = ? AND a.id = ?
       ON CONFLICT (session_id, account_id) DO UPDATE SET expires_at = excluded.expires_at`,
      untilMs,
      sessionId,
      accountId,
    );
    return changed === 1 ? 'started' : 'unknown';
  },
  {
    action: 'account.start-support-access',
    resourceId: ({ accountId }) => accountId,
    did: ({ untilMs }, outcome) => (outcome === 'started' ? { until: iso(untilMs) } : undefined),
  },
);

/** Returns false if the session has no support access to the account. */
export const endSupportAccessOperation = change(
  'users.endSupportAccess',
  async (tx, { sessionId, accountId }: Pick<SupportAccess, 'sessionId' | 'accountId'>): Promise<boolean> =>
    (await tx.run('DELETE FROM support_access WHERE session_id = ? AND account_id = ?', sessionId, accountId)) === 1,
  {
    action: 'account.end-support-access',
    resourceId: ({ accountId }) => accountId,
    did: (_, isEnded) => (isEnded ? {} : undefined),
  },
);

/**
 * Returns accounts that a session reads through support access (or only `accountId`), as memberships with role viewer. May include expired
 * ones.
 */
export async function supportAccessOf(
  tx: Transaction,
  sessionId: string,
  accountId: string | null,
): Promise<Membership[]> {
  const rows = await tx.all<{ account_id: string; expires_at: number }>(
    `SELECT l.account_id, l.expires_at FROM support_access l
     JOIN user_session s ON s.id = l.session_id JOIN app_user u ON u.id = s.user_id
     WHERE l.session_id = ? AND l.account_id = coalesce(?, l.account_id) AND u.is_operator = 1
       AND NOT EXISTS (SELECT 1 FROM membership m WHERE m.account_id = l.account_id AND m.user_id = u.id)
     ORDER BY l.account_id LIMIT 1000`,
    sessionId,
    accountId,
  );
  const found: Membership[] = [];
  for (const { account_id, expires_at: supportAccessUntil } of rows) {
    const account = await readAccount(tx, account_id);
    if (account !== undefined) found.push({ role: 'viewer', account, supportAccessUntil });
  }
  return found;
}

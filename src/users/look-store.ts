/** The rows of looking at an account: which session of an operator reads which account, and until when. They end with the session. */
import { readAccount } from '../accounts/accounts.ts';
import { change } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import type { Transaction } from '../storage/operation.ts';
import type { Membership } from './user.ts';

export interface Look {
  sessionId: string;
  userId: string;
  accountId: string;
  untilMs: number;
}

/** Begins a look, or lengthens it. A member reads the account anyway; `unknown` where there is no such account or session. */
export const lookOperation = change(
  'users.look',
  async (tx, { sessionId, userId, accountId, untilMs }: Look): Promise<'looks' | 'member' | 'unknown'> => {
    const member = await tx.get(
      'SELECT 1 AS found FROM membership WHERE account_id = ? AND user_id = ?',
      accountId,
      userId,
    );
    if (member !== undefined) return 'member';
    const changed = await tx.run(
      `INSERT INTO account_look (session_id, account_id, expires_at)
       SELECT s.id, a.id, CAST(? AS BIGINT) FROM user_session s, account a WHERE s.id = ? AND a.id = ?
       ON CONFLICT (session_id, account_id) DO UPDATE SET expires_at = excluded.expires_at`,
      untilMs,
      sessionId,
      accountId,
    );
    return changed === 1 ? 'looks' : 'unknown';
  },
  {
    action: 'account.look',
    resourceId: ({ accountId }) => accountId,
    did: ({ untilMs }, outcome) => (outcome === 'looks' ? { until: iso(untilMs) } : undefined),
  },
);

/** False where the session does not look at the account. */
export const endLookOperation = change(
  'users.endLook',
  async (tx, { sessionId, accountId }: Pick<Look, 'sessionId' | 'accountId'>): Promise<boolean> =>
    (await tx.run('DELETE FROM account_look WHERE session_id = ? AND account_id = ?', sessionId, accountId)) === 1,
  {
    action: 'account.end-look',
    resourceId: ({ accountId }) => accountId,
    did: (_, isEnded) => (isEnded ? {} : undefined),
  },
);

/** What a session looks at, or one account of it, as memberships to read. Those that are over may be among them. */
export async function looksOf(tx: Transaction, sessionId: string, accountId: string | null): Promise<Membership[]> {
  const rows = await tx.all<{ account_id: string; expires_at: number }>(
    `SELECT l.account_id, l.expires_at FROM account_look l
     JOIN user_session s ON s.id = l.session_id JOIN app_user u ON u.id = s.user_id
     WHERE l.session_id = ? AND l.account_id = coalesce(?, l.account_id) AND u.is_operator = 1
       AND NOT EXISTS (SELECT 1 FROM membership m WHERE m.account_id = l.account_id AND m.user_id = u.id)
     ORDER BY l.account_id LIMIT 1000`,
    sessionId,
    accountId,
  );
  const looks: Membership[] = [];
  for (const { account_id, expires_at: lookingUntil } of rows) {
    const account = await readAccount(tx, account_id);
    if (account !== undefined) looks.push({ role: 'viewer', account, lookingUntil });
  }
  return looks;
}

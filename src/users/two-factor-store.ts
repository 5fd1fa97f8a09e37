/** Stores which accounts require two-factor authentication, and reads which users have a second factor. */
import { change } from '../audit/audit.ts';
import { operation, type Transaction } from '../storage/operation.ts';

/** Returns false if nothing changed. */
export const requireTwoFactorOperation = change(
  'users.requireTwoFactor',
  async (tx, { accountId, required }: { accountId: string; required: boolean }): Promise<boolean> => {
    const value = required ? 1 : 0;
    const changed = await tx.run(
      'UPDATE account SET two_factor_required = ? WHERE id = ? AND two_factor_required <> ?',
      value,
      accountId,
      value,
    );
    return changed === 1;
  },
  {
    action: 'account.require-two-factor',
    table: 'account',
    shows: ['two_factor_required'],
    where: ({ accountId }) => ({ id: accountId }),
  },
);

/** Returns the name of an account of the user that requires two-factor authentication. */
export async function requiringAccount(tx: Transaction, userId: string): Promise<string | undefined> {
  const row = await tx.get<{ name: string }>(
    `SELECT a.name FROM membership m JOIN account a ON a.id = m.account_id
     WHERE m.user_id = ? AND a.two_factor_required = 1 ORDER BY a.id LIMIT 1`,
    userId,
  );
  return row?.name;
}

export const requiringAccountOperation = operation(
  'users.requiringAccount',
  'read',
  async (tx, userId: string): Promise<string | null> => (await requiringAccount(tx, userId)) ?? null,
);

/** Returns whether the user has an authenticator app that is confirmed, or a passkey. */
export async function hasSecondFactor(tx: Transaction, userId: string): Promise<boolean> {
  const row = await tx.get(
    `SELECT 1 AS found FROM app_user u WHERE u.id = ?
       AND (u.totp_confirmed_at IS NOT NULL OR EXISTS (SELECT 1 FROM passkey p WHERE p.user_id = u.id))`,
    userId,
  );
  return row !== undefined;
}

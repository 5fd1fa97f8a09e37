/** Whom to write to about an account. */
import { operation } from '../storage/operation.ts';

export interface Contacts {
  /** Addresses of the account's users. */
  users: string[];
  /** Addresses of the operators; some of them may be users of the account too. */
  operators: string[];
}

export const contactsOperation = operation(
  'accounts.contacts',
  'read',
  async (tx, accountId: string): Promise<Contacts> => {
    const rows = await tx.all<{ email: string; account_id: string | null; is_operator: number }>(
      'SELECT email, account_id, is_operator FROM operator_user WHERE account_id = ? OR is_operator = 1 ORDER BY id',
      accountId,
    );
    const emails = (of: typeof rows): string[] => of.map((row) => row.email);
    return {
      users: emails(rows.filter((row) => row.account_id === accountId)),
      operators: emails(rows.filter((row) => row.is_operator === 1)),
    };
  },
);

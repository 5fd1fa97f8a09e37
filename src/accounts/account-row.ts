/** How an account is read from its row; shared by the stores of this folder. */
import type { Transaction } from '../storage/operation.ts';
import type { Account, AccountSettings, AccountStatus, Plan } from './account.ts';

export interface AccountRow {
  id: string;
  name: string;
  plan: Plan;
  status: AccountStatus;
  approved_email_bytes: number;
  settings: string;
  created_at: number;
}

export const ACCOUNT_COLUMNS = 'a.id, a.name, a.plan, a.status, a.approved_email_bytes, a.settings, a.created_at';

export function accountOf(row: AccountRow): Account {
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    status: row.status,
    approvedEmailBytes: row.approved_email_bytes,
    settings: JSON.parse(row.settings) as AccountSettings,
    createdAt: row.created_at,
  };
}

/** By id. `hold` ends the statement for a transaction that goes on to change the row. */
export async function readAccount(tx: Transaction, id: string, hold = ''): Promise<Account | undefined> {
  const row = await tx.get<AccountRow>(`SELECT ${ACCOUNT_COLUMNS} FROM account a WHERE a.id = ? ${hold}`, id);
  return row && accountOf(row);
}

/** Where a page begins and how long it is; `before` is the last id of the page in front of it. */
export interface PageRequest {
  before: string | null;
  limit: number;
}

/** How an account is read from its row; shared by the stores of this folder. */
import type { Mode } from '../base/mode.ts';
import type { Caps } from '../caps/caps.ts';
import type { Transaction } from '../storage/operation.ts';
import type { Account, AccountSettings, AccountStatus, Plan } from './account.ts';

export interface AccountRow {
  id: string;
  name: string;
  plan: Plan;
  status: AccountStatus;
  approved_email_bytes: number;
  settings: string;
  limits: string;
  created_at: number;
}

export const ACCOUNT_COLUMNS =
  'a.id, a.name, a.plan, a.status, a.approved_email_bytes, a.settings, a.limits, a.created_at';

export function accountOf(row: AccountRow): Account {
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    status: row.status,
    approvedEmailBytes: row.approved_email_bytes,
    settings: JSON.parse(row.settings) as AccountSettings,
    limits: JSON.parse(row.limits) as Partial<Caps>,
    createdAt: row.created_at,
  };
}

/** By id. `hold` ends the statement for a transaction that goes on to change the row. */
export async function readAccount(tx: Transaction, id: string, hold = ''): Promise<Account | undefined> {
  const row = await tx.get<AccountRow>(`SELECT ${ACCOUNT_COLUMNS} FROM account a WHERE a.id = ? ${hold}`, id);
  return row && accountOf(row);
}

export type Revoked = 'revoked' | 'unknown' | 'other-mode';

/** A key or credential that is to stop working: of one account or (null) of any, of one mode or (null) of either. */
export interface Revocation {
  id: string;
  accountId: string | null;
  mode: Mode | null;
  nowMs: number;
}

export async function revoke(
  tx: Transaction,
  table: 'api_key' | 'smtp_credential',
  { id, accountId, mode, nowMs }: Revocation,
): Promise<Revoked> {
  const row = await tx.get<{ mode: Mode }>(
    `SELECT mode FROM ${table} WHERE id = ? AND account_id = coalesce(?, account_id) AND revoked_at IS NULL`,
    id,
    accountId,
  );
  if (row === undefined) return 'unknown';
  if (mode !== null && row.mode !== mode) return 'other-mode';
  const changed = await tx.run(`UPDATE ${table} SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`, nowMs, id);
  return changed === 1 ? 'revoked' : 'unknown';
}

/** Where a page begins and how long it is; `before` is the last id of the page in front of it. */
export interface PageRequest {
  before: string | null;
  limit: number;
}

/** The rows of API keys. A key is revoked, never removed, so that what it did can still be read. */
import { timingSafeEqual } from 'node:crypto';
import type { Mode } from '../base/mode.ts';
import { type CapReached, capReached } from '../caps/caps.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import type { Account, Scope } from './account.ts';
import { type PageRequest, type Revocation, readAccount, revoke } from './account-row.ts';
import { sendersColumn, sendersOf } from './allowed-senders.ts';

export interface NewKeyRow {
  id: string;
  accountId: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  /** Bound to none when absent. */
  allowedSenders?: readonly string[];
  secretHash: Uint8Array;
  createdAt: number;
}

export async function insertKey(tx: Transaction, key: NewKeyRow): Promise<void> {
  await tx.run(
    `INSERT INTO api_key (id, account_id, mode, scope, name, allowed_senders, secret_hash, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    key.id,
    key.accountId,
    key.mode,
    key.scope,
    key.name,
    sendersColumn(key.allowedSenders),
    key.secretHash,
    key.createdAt,
  );
}

export interface ApiKeyRecord {
  id: string;
  accountId: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  allowedSenders: readonly string[];
  createdAt: number;
}

export const createKeyOperation = operation(
  'accounts.createKey',
  'write',
  async (tx, key: NewKeyRow): Promise<'created' | 'unknown-account' | CapReached> => {
    const { accountId } = key;
    if (!(await tx.get('SELECT 1 AS found FROM account WHERE id = ?', accountId))) return 'unknown-account';
    const inForce = 'SELECT count(*) AS n FROM api_key WHERE account_id = ? AND revoked_at IS NULL';
    const reached = await capReached(tx, { accountId, cap: 'apiKeys', count: [inForce, accountId] });
    if (reached) return reached;
    await insertKey(tx, key);
    return 'created';
  },
);

export const keysOperation = operation(
  'accounts.keys',
  'read',
  async (tx, args: PageRequest & { accountId: string }): Promise<ApiKeyRecord[]> => {
    const rows = await tx.all<Omit<ApiKeyRecord, 'allowedSenders'> & { senders: string | null }>(
      `SELECT id, account_id AS "accountId", mode, scope, name, allowed_senders AS senders, created_at AS "createdAt"
       FROM api_key WHERE account_id = ? AND revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'key_~',
      args.limit,
    );
    return rows.map(({ senders, ...row }) => ({ ...row, allowedSenders: sendersOf(senders) }));
  },
);

export const revokeKeyOperation = operation('accounts.revokeKey', 'write', (tx, revocation: Revocation) =>
  revoke(tx, 'api_key', revocation),
);

/** The caller that a key stands for, read for authentication. */
export interface KeyHolder {
  account: Account;
  mode: Mode;
  scope: Scope;
  keyId: string;
  allowedSenders: readonly string[];
}

const DUMMY_HASH = new Uint8Array(32);

/**
 * The holder of a living key with this id and hash. A row is read and a hash compared whether the id exists or not (the
 * nearest older key stands in), so that the time tells nothing of which ids exist.
 */
export const findKeyOperation = operation(
  'accounts.findKey',
  'read',
  async (tx, args: { keyId: string; secretHash: Uint8Array }): Promise<KeyHolder | null> => {
    const row = await tx.get<{
      id: string;
      account_id: string;
      mode: Mode;
      scope: Scope;
      allowed_senders: string | null;
      secret_hash: Uint8Array;
      revoked_at: number | null;
    }>(
      `SELECT id, account_id, mode, scope, allowed_senders, secret_hash, revoked_at
       FROM api_key WHERE id <= ? ORDER BY id DESC LIMIT 1`,
      args.keyId,
    );
    const same = timingSafeEqual(row?.secret_hash ?? DUMMY_HASH, args.secretHash);
    if (!row || row.id !== args.keyId || !same || row.revoked_at !== null) return null;
    const account = await readAccount(tx, row.account_id);
    if (!account) return null;
    const allowedSenders = sendersOf(row.allowed_senders);
    return { account, mode: row.mode, scope: row.scope, keyId: row.id, allowedSenders };
  },
);

/**
 * Rows of API keys, SMTP credentials, and portal users. Keys are stored as SHA-256, passwords as argon2id hashes. Keys and credentials are
 * revoked, never deleted, so their history remains readable.
 */

import { timingSafeEqual } from 'node:crypto';
import { change } from '../audit/audit.ts';
import type { Actor } from '../base/actor.ts';
import type { Mode } from '../base/mode.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import {
  type Account,
  type Caller,
  type DeliveryReports,
  type PageRequest,
  type Revocation,
  readAccount,
  revoke,
  type Scope,
  sendersColumn,
  sendersOf,
} from './account.ts';

export interface NewKeyRow {
  id: string;
  accountId: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  /** Unrestricted if absent. */
  allowedSenders?: readonly string[];
  /** Unix ms; valid until it is revoked if absent. */
  expiresAt?: number | null;
  secretHash: Uint8Array;
  /** For keys that sign requests. */
  signing?: { accessKeyId: string; secretSealed: Uint8Array };
  createdAt: number;
}

export async function insertKey(tx: Transaction, key: NewKeyRow): Promise<void> {
  await tx.run(
    `INSERT INTO api_key (id, account_id, mode, scope, name, allowed_senders, secret_hash, access_key_id, signing_secret_sealed,
       created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key.id,
    key.accountId,
    key.mode,
    key.scope,
    key.name,
    sendersColumn(key.allowedSenders),
    key.secretHash,
    key.signing?.accessKeyId ?? null,
    key.signing?.secretSealed ?? null,
    key.createdAt,
    key.expiresAt ?? null,
  );
}

export interface ApiKeyRecord {
  id: string;
  accountId: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  allowedSenders: readonly string[];
  /** Null for keys that are sent with a request. */
  accessKeyId: string | null;
  expiresAt: number | null;
  createdAt: number;
}

/** Neither revoked nor expired at a time. */
const VALID = 'revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)';

type KeyRow = Omit<ApiKeyRecord, 'allowedSenders'> & { senders: string | null };

const KEY_COLUMNS = `id, account_id AS "accountId", mode, scope, name, allowed_senders AS senders, access_key_id AS "accessKeyId",
  expires_at AS "expiresAt", created_at AS "createdAt"`;

const KEY_TRAIL = {
  table: 'api_key',
  shows: ['mode', 'scope', 'name', 'allowed_senders', 'access_key_id', 'created_at', 'expires_at', 'revoked_at'],
};

export const createKeyOperation = change(
  'accounts.createKey',
  async (tx, key: NewKeyRow): Promise<'created' | 'unknown-account' | LimitReached> => {
    const { accountId } = key;
    if (!(await tx.get('SELECT 1 AS found FROM account WHERE id = ?', accountId))) return 'unknown-account';
    const inForce = `SELECT count(*) AS n FROM api_key WHERE account_id = ? AND ${VALID}`;
    const count = [inForce, accountId, key.createdAt] as const;
    const reached = await checkLimit(tx, { accountId, limit: 'apiKeys', count });
    if (reached) return reached;
    await insertKey(tx, key);
    return 'created';
  },
  { ...KEY_TRAIL, action: 'api-key.create' },
);

export const keysOperation = operation(
  'accounts.keys',
  'read',
  async (tx, args: PageRequest & { accountId: string }): Promise<ApiKeyRecord[]> => {
    const rows = await tx.all<KeyRow>(
      `SELECT ${KEY_COLUMNS}
       FROM api_key WHERE account_id = ? AND revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'key_~',
      args.limit,
    );
    return rows.map(({ senders, ...row }) => ({ ...row, allowedSenders: sendersOf(senders) }));
  },
);

/** Gives a key in force another name. */
export const renameKeyOperation = change(
  'accounts.renameKey',
  async (tx, { id, accountId, mode, name }: Omit<Revocation, 'nowMs'> & { name: string }): Promise<Renamed> => {
    const row = await tx.get<KeyRow>(
      `SELECT ${KEY_COLUMNS}
       FROM api_key WHERE id = ? AND account_id = ? AND revoked_at IS NULL`,
      ...[id, accountId],
    );
    if (row === undefined) return 'unknown';
    if (mode !== null && row.mode !== mode) return 'other-mode';
    await tx.run('UPDATE api_key SET name = ? WHERE id = ?', name, id);
    const { senders, ...key } = row;
    return { ...key, name, allowedSenders: sendersOf(senders) };
  },
  { ...KEY_TRAIL, action: 'api-key.rename' },
);

export type Renamed = ApiKeyRecord | 'unknown' | 'other-mode';

export const revokeKeyOperation = change(
  'accounts.revokeKey',
  (tx, revocation: Revocation) => revoke(tx, 'api_key', revocation),
  { ...KEY_TRAIL, action: 'api-key.revoke' },
);

const DUMMY_HASH = new Uint8Array(32);

/**
 * Finds the holder of an active key by id and hash. A row is read and a hash compared even if the id does not exist (the nearest older key
 * is used), so the response time does not reveal which ids exist.
 */
export const findKeyOperation = operation(
  'accounts.findKey',
  'read',
  async (tx, args: { keyId: string; secretHash: Uint8Array }): Promise<Caller | null> => {
    const row = await tx.get<HolderRow & { secret_hash: Uint8Array; revoked_at: number | null }>(
      `SELECT id, account_id, mode, scope, name, allowed_senders, secret_hash, revoked_at, expires_at
       FROM api_key WHERE id <= ? ORDER BY id DESC LIMIT 1`,
      args.keyId,
    );
    const same = timingSafeEqual(row?.secret_hash ?? DUMMY_HASH, args.secretHash);
    if (!row || row.id !== args.keyId || !same || row.revoked_at !== null) return null;
    return holderOf(tx, row);
  },
);

interface HolderRow {
  id: string;
  account_id: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  allowed_senders: string | null;
  /** Unix ms; null for never. */
  expires_at: number | null;
}

async function holderOf(tx: Transaction, row: HolderRow): Promise<Caller | null> {
  const account = await readAccount(tx, row.account_id);
  if (!account) return null;
  const allowedSenders = sendersOf(row.allowed_senders);
  const actor: Actor = { kind: 'key', id: row.id, name: row.name ?? row.id };
  return {
    account,
    mode: row.mode,
    scope: row.scope,
    keyId: row.id,
    allowedSenders,
    expiresAt: row.expires_at,
    actor,
  };
}

/** The holder of a key that signs requests, and the sealed secret that verifies its signatures. */
export interface SigningKeyHolder {
  caller: Caller;
  secretSealed: Uint8Array;
}

/** Finds the holder of an active key by its access key id, which is public. */
export const findSigningKeyOperation = operation(
  'accounts.findSigningKey',
  'read',
  async (tx, accessKeyId: string): Promise<SigningKeyHolder | null> => {
    const row = await tx.get<HolderRow & { signing_secret_sealed: Uint8Array }>(
      `SELECT id, account_id, mode, scope, name, allowed_senders, expires_at, signing_secret_sealed
       FROM api_key WHERE access_key_id = ? AND revoked_at IS NULL`,
      accessKeyId,
    );
    const caller = row && (await holderOf(tx, row));
    return row && caller ? { caller, secretSealed: row.signing_secret_sealed } : null;
  },
);

export interface NewCredentialRow {
  id: string;
  accountId: string;
  mode: Mode;
  username: string;
  /** Unrestricted if absent. */
  allowedSenders?: readonly string[];
  /** `off` when absent. */
  deliveryReports?: DeliveryReports;
  /** Unix ms; valid until it is revoked if absent. */
  expiresAt?: number | null;
  passwordHash: string;
  createdAt: number;
}

export async function insertCredential(tx: Transaction, row: NewCredentialRow): Promise<void> {
  await tx.run(
    `INSERT INTO smtp_credential (id, account_id, mode, username, allowed_senders, delivery_reports, password_hash, created_at, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.accountId,
    row.mode,
    row.username,
    sendersColumn(row.allowedSenders),
    row.deliveryReports === 'failures' ? 'failures' : null,
    row.passwordHash,
    row.createdAt,
    row.expiresAt ?? null,
  );
}

export interface CredentialRecord {
  id: string;
  accountId: string;
  mode: Mode;
  username: string;
  allowedSenders: readonly string[];
  deliveryReports: DeliveryReports;
  expiresAt: number | null;
  createdAt: number;
}

type CredentialOutcome = 'created' | 'unknown-account' | 'plan-not-eligible' | LimitReached;

const CREDENTIAL_TRAIL = {
  table: 'smtp_credential',
  shows: ['mode', 'allowed_senders', 'delivery_reports', 'created_at', 'expires_at', 'revoked_at'],
};

export const createCredentialOperation = change(
  'accounts.createCredential',
  async (tx, row: NewCredentialRow): Promise<CredentialOutcome> => {
    const { accountId } = row;
    const account = await readAccount(tx, accountId);
    if (!account) return 'unknown-account';
    if (account.plan === 'free') return 'plan-not-eligible';
    const inForce = `SELECT count(*) AS n FROM smtp_credential WHERE account_id = ? AND ${VALID}`;
    const count = [inForce, accountId, row.createdAt] as const;
    const reached = await checkLimit(tx, { accountId, limit: 'smtpCredentials', count });
    if (reached) return reached;
    await insertCredential(tx, row);
    return 'created';
  },
  { ...CREDENTIAL_TRAIL, action: 'smtp-credential.create' },
);

export const credentialsOperation = operation(
  'accounts.credentials',
  'read',
  async (tx, args: PageRequest & { accountId: string }): Promise<CredentialRecord[]> => {
    const rows = await tx.all<Omit<CredentialRecord, 'allowedSenders'> & { senders: string | null }>(
      `SELECT id, account_id AS "accountId", mode, username, allowed_senders AS senders,
         coalesce(delivery_reports, 'off') AS "deliveryReports", expires_at AS "expiresAt", created_at AS "createdAt"
       FROM smtp_credential WHERE account_id = ? AND revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'smtp_~',
      args.limit,
    );
    return rows.map(({ senders, ...row }) => ({ ...row, allowedSenders: sendersOf(senders) }));
  },
);

export const revokeCredentialOperation = change(
  'accounts.revokeCredential',
  (tx, revocation: Revocation) => revoke(tx, 'smtp_credential', revocation),
  { ...CREDENTIAL_TRAIL, action: 'smtp-credential.revoke' },
);

/** An active credential with its account and the hash of its password. */
export interface CredentialHolder {
  credentialId: string;
  mode: Mode;
  allowedSenders: readonly string[];
  deliveryReports: DeliveryReports;
  expiresAt: number | null;
  passwordHash: string;
  account: Account;
}

export const findCredentialOperation = operation(
  'accounts.findCredential',
  'read',
  async (tx, username: string): Promise<CredentialHolder | null> => {
    const row = await tx.get<{
      id: string;
      account_id: string;
      mode: Mode;
      allowed_senders: string | null;
      delivery_reports: DeliveryReports;
      password_hash: string;
      expires_at: number | null;
    }>(
      `SELECT id, account_id, mode, allowed_senders, coalesce(delivery_reports, 'off') AS delivery_reports, password_hash,
         expires_at
       FROM smtp_credential WHERE username = ? AND revoked_at IS NULL`,
      username,
    );
    const account = row && (await readAccount(tx, row.account_id));
    if (!row || !account) return null;
    const allowedSenders = sendersOf(row.allowed_senders);
    return {
      credentialId: row.id,
      mode: row.mode,
      allowedSenders,
      deliveryReports: row.delivery_reports,
      expiresAt: row.expires_at,
      passwordHash: row.password_hash,
      account,
    };
  },
);

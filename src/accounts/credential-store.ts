/**
 * Stores API keys and SMTP credentials: keys as SHA-256 hashes, passwords as argon2id hashes. Keys and credentials are revoked, never
 * deleted, so their history remains readable.
 */

import { timingSafeEqual } from 'node:crypto';
import { change } from '../audit/audit.ts';
import type { Actor } from '../base/actor.ts';
import type { Mode } from '../base/mode.ts';
import type { IdPage } from '../http/paging.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import {
  type Account,
  type Caller,
  type DeliveryReports,
  listColumn,
  listOf,
  type Revocation,
  readAccount,
  revoke,
  type Scope,
} from './account.ts';

export interface NewKey {
  accountId: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  /** Unrestricted if absent. */
  allowedSenders?: readonly string[];
  /** Unrestricted if absent. */
  allowedNetworks?: readonly string[];
  /** Unix ms; if absent, it is valid until it is revoked. */
  expiresAt?: number | null;
}

export interface NewKeyRow extends NewKey {
  id: string;
  secretHash: Uint8Array;
  /** Set for keys that sign requests. */
  signing?: { accessKeyId: string; secretSealed: Uint8Array };
  createdAt: number;
}

export async function insertKey(tx: Transaction, key: NewKeyRow): Promise<void> {
  await tx.run(
    `INSERT INTO api_key (id, account_id, mode, scope, name, allowed_senders, allowed_networks, secret_hash, access_key_id,
       signing_secret_sealed, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key.id,
    key.accountId,
    key.mode,
    key.scope,
    key.name,
    listColumn(key.allowedSenders),
    listColumn(key.allowedNetworks),
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
  allowedNetworks: readonly string[];
  /** Null for keys that are sent with a request instead of signing it. */
  accessKeyId: string | null;
  expiresAt: number | null;
  createdAt: number;
  lastUsedAt: number | null;
  lastUsedAddress: string | null;
}

/** A row whose lists are still in their stored form. */
type StoredRow<R> = Omit<R, 'allowedSenders' | 'allowedNetworks'> & { senders: string | null; networks: string | null };

function recordOf<R extends object>({ senders, networks, ...row }: StoredRow<R>) {
  return { ...row, allowedSenders: listOf(senders), allowedNetworks: listOf(networks) };
}

const LIST_COLUMNS = 'allowed_senders AS senders, allowed_networks AS networks';

/** Reads the last use with subqueries, because PostgreSQL cannot lock the rows of a left join. */
const useColumnsOf = (table: string): string =>
  `(SELECT used_at FROM credential_use WHERE credential_id = ${table}.id) AS "lastUsedAt",
   (SELECT address FROM credential_use WHERE credential_id = ${table}.id) AS "lastUsedAddress"`;
const KEY_COLUMNS = `id, account_id AS "accountId", mode, scope, name, ${LIST_COLUMNS}, access_key_id AS "accessKeyId",
  expires_at AS "expiresAt", created_at AS "createdAt", ${useColumnsOf('api_key')}`;

const KEY_TRAIL = {
  table: 'api_key',
  shows: [
    'mode',
    'scope',
    'name',
    'allowed_senders',
    'allowed_networks',
    'access_key_id',
    'created_at',
    'expires_at',
    'revoked_at',
  ],
};

export const createKeyOperation = change(
  'accounts.createKey',
  async (tx, key: NewKeyRow): Promise<'created' | 'unknown-account' | LimitReached> => {
    const { accountId } = key;
    if (!(await tx.get('SELECT 1 AS found FROM account WHERE id = ?', accountId))) return 'unknown-account';
    const reached = await checkLimit(tx, { accountId, limit: 'apiKeys', nowMs: key.createdAt });
    if (reached) return reached;
    await insertKey(tx, key);
    return 'created';
  },
  { ...KEY_TRAIL, action: 'api-key.create' },
);

export const keysOperation = operation(
  'accounts.keys',
  'read',
  async (tx, args: IdPage & { accountId: string }): Promise<ApiKeyRecord[]> => {
    const rows = await tx.all<StoredRow<ApiKeyRecord>>(
      `SELECT ${KEY_COLUMNS}
       FROM api_key WHERE account_id = ? AND revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'key_~',
      args.limit,
    );
    return rows.map(recordOf<ApiKeyRecord>);
  },
);

type ChangeResult<R> = R | 'unknown' | 'other-mode';
type Target = Omit<Revocation, 'nowMs' | 'accountId'> & { accountId: string };

/** Reads an active key or credential to change it, and locks it until the end of the transaction. */
async function readToChange<R extends { mode: Mode }>(
  tx: Transaction,
  select: string,
  { id, accountId, mode }: Target,
): Promise<ChangeResult<R>> {
  const row = await tx.get<R>(
    `${select} WHERE id = ? AND account_id = ? AND revoked_at IS NULL ${locked(tx)}`,
    id,
    accountId,
  );
  if (row === undefined) return 'unknown';
  return mode !== null && row.mode !== mode ? 'other-mode' : row;
}

/** Changes the given fields of an active key. */
export const updateKeyOperation = change(
  'accounts.updateKey',
  async (
    tx,
    {
      name,
      allowedNetworks,
      ...target
    }: Target & { name?: string | undefined; allowedNetworks?: readonly string[] | undefined },
  ): Promise<ChangeResult<ApiKeyRecord>> => {
    const row = await readToChange<StoredRow<ApiKeyRecord>>(tx, `SELECT ${KEY_COLUMNS} FROM api_key`, target);
    if (typeof row === 'string') return row;
    const key = recordOf<ApiKeyRecord>(row);
    const changed = { ...key, name: name ?? key.name, allowedNetworks: allowedNetworks ?? key.allowedNetworks };
    await tx.run(
      'UPDATE api_key SET name = ?, allowed_networks = ? WHERE id = ?',
      changed.name,
      listColumn(changed.allowedNetworks),
      changed.id,
    );
    return changed;
  },
  { ...KEY_TRAIL, action: 'api-key.update' },
);

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
      `SELECT id, account_id, mode, scope, name, ${LIST_COLUMNS}, secret_hash, revoked_at, expires_at
       FROM api_key WHERE id <= ? ORDER BY id DESC LIMIT 1`,
      args.keyId,
    );
    const isSameHash = timingSafeEqual(row?.secret_hash ?? DUMMY_HASH, args.secretHash);
    if (!row || row.id !== args.keyId || !isSameHash || row.revoked_at !== null) return null;
    return holderOf(tx, row);
  },
);

interface HolderRow {
  id: string;
  account_id: string;
  mode: Mode;
  scope: Scope;
  name: string | null;
  senders: string | null;
  networks: string | null;
  /** Unix ms; null if it never expires. */
  expires_at: number | null;
}

async function holderOf(tx: Transaction, row: HolderRow): Promise<Caller | null> {
  const account = await readAccount(tx, row.account_id);
  if (!account) return null;
  const actor: Actor = { kind: 'key', id: row.id, name: row.name ?? row.id };
  return {
    account,
    mode: row.mode,
    scope: row.scope,
    keyId: row.id,
    allowedSenders: listOf(row.senders),
    allowedNetworks: listOf(row.networks),
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
      `SELECT id, account_id, mode, scope, name, ${LIST_COLUMNS}, expires_at, signing_secret_sealed
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
  /** Unrestricted if absent. */
  allowedNetworks?: readonly string[];
  /** `off` if absent. */
  deliveryReports?: DeliveryReports;
  /** Unix ms; if absent, it is valid until it is revoked. */
  expiresAt?: number | null;
  passwordHash: string;
  createdAt: number;
}

export async function insertCredential(tx: Transaction, row: NewCredentialRow): Promise<void> {
  await tx.run(
    `INSERT INTO smtp_credential (id, account_id, mode, username, allowed_senders, allowed_networks, delivery_reports, password_hash,
       created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.accountId,
    row.mode,
    row.username,
    listColumn(row.allowedSenders),
    listColumn(row.allowedNetworks),
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
  allowedNetworks: readonly string[];
  deliveryReports: DeliveryReports;
  expiresAt: number | null;
  createdAt: number;
  lastUsedAt: number | null;
  lastUsedAddress: string | null;
}

const CREDENTIAL_COLUMNS = `id, account_id AS "accountId", mode, username, ${LIST_COLUMNS},
  coalesce(delivery_reports, 'off') AS "deliveryReports", expires_at AS "expiresAt", created_at AS "createdAt",
  ${useColumnsOf('smtp_credential')}`;

type CredentialOutcome = 'created' | 'unknown-account' | 'plan-not-eligible' | LimitReached;

const CREDENTIAL_TRAIL = {
  table: 'smtp_credential',
  shows: ['mode', 'allowed_senders', 'allowed_networks', 'delivery_reports', 'created_at', 'expires_at', 'revoked_at'],
};

export const createCredentialOperation = change(
  'accounts.createCredential',
  async (tx, row: NewCredentialRow): Promise<CredentialOutcome> => {
    const { accountId } = row;
    const account = await readAccount(tx, accountId);
    if (!account) return 'unknown-account';
    if (account.plan === 'free') return 'plan-not-eligible';
    const reached = await checkLimit(tx, { accountId, limit: 'smtpCredentials', nowMs: row.createdAt });
    if (reached) return reached;
    await insertCredential(tx, row);
    return 'created';
  },
  { ...CREDENTIAL_TRAIL, action: 'smtp-credential.create' },
);

export const credentialsOperation = operation(
  'accounts.credentials',
  'read',
  async (tx, args: IdPage & { accountId: string }): Promise<CredentialRecord[]> => {
    const rows = await tx.all<StoredRow<CredentialRecord>>(
      `SELECT ${CREDENTIAL_COLUMNS}
       FROM smtp_credential WHERE account_id = ? AND revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'smtp_~',
      args.limit,
    );
    return rows.map(recordOf<CredentialRecord>);
  },
);

/** Changes the allowed networks of an active credential. */
export const updateCredentialOperation = change(
  'accounts.updateCredential',
  async (
    tx,
    { allowedNetworks, ...target }: Target & { allowedNetworks?: readonly string[] | undefined },
  ): Promise<ChangeResult<CredentialRecord>> => {
    const select = `SELECT ${CREDENTIAL_COLUMNS} FROM smtp_credential`;
    const row = await readToChange<StoredRow<CredentialRecord>>(tx, select, target);
    if (typeof row === 'string') return row;
    const credential = recordOf<CredentialRecord>(row);
    const changed = { ...credential, allowedNetworks: allowedNetworks ?? credential.allowedNetworks };
    await tx.run(
      'UPDATE smtp_credential SET allowed_networks = ? WHERE id = ?',
      listColumn(changed.allowedNetworks),
      changed.id,
    );
    return changed;
  },
  { ...CREDENTIAL_TRAIL, action: 'smtp-credential.update' },
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
  allowedNetworks: readonly string[];
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
      senders: string | null;
      networks: string | null;
      delivery_reports: DeliveryReports;
      password_hash: string;
      expires_at: number | null;
    }>(
      `SELECT id, account_id, mode, ${LIST_COLUMNS}, coalesce(delivery_reports, 'off') AS delivery_reports, password_hash, expires_at
       FROM smtp_credential WHERE username = ? AND revoked_at IS NULL`,
      username,
    );
    const account = row && (await readAccount(tx, row.account_id));
    if (!row || !account) return null;
    return {
      credentialId: row.id,
      mode: row.mode,
      allowedSenders: listOf(row.senders),
      allowedNetworks: listOf(row.networks),
      deliveryReports: row.delivery_reports,
      expiresAt: row.expires_at,
      passwordHash: row.password_hash,
      account,
    };
  },
);

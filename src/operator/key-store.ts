/** Stores operator keys as SHA-256 hashes. Keys are revoked, never deleted, so their history remains readable. */
import { timingSafeEqual } from 'node:crypto';
import { listColumn, listOf } from '../accounts/accounts.ts';
import { change } from '../audit/audit.ts';
import type { OperatorScope } from '../http/operator-key.ts';
import { operation } from '../storage/operation.ts';

export interface OperatorKey {
  id: string;
  name: string;
  scopes: readonly OperatorScope[];
  /** Networks (CIDR) that the key can be used from; empty for any address. */
  allowedNetworks: readonly string[];
  /** Unix ms; null if it is valid until it is revoked. */
  expiresAt: number | null;
  createdAt: number;
}

export type NewOperatorKey = OperatorKey & { secretHash: Uint8Array };

interface KeyRow {
  id: string;
  name: string;
  scopes: string;
  networks: string | null;
  expiresAt: number | null;
  createdAt: number;
}

const COLUMNS = `id, name, scopes, allowed_networks AS networks, expires_at AS "expiresAt", created_at AS "createdAt"`;

function keyOf({ id, name, scopes, networks, expiresAt, createdAt }: KeyRow): OperatorKey {
  const allowed = { scopes: JSON.parse(scopes) as OperatorScope[], allowedNetworks: listOf(networks) };
  return { id, name, ...allowed, expiresAt, createdAt };
}

const TRAIL = {
  table: 'operator_key',
  shows: ['name', 'scopes', 'allowed_networks', 'created_at', 'expires_at', 'revoked_at'],
};

export const createOperatorKeyOperation = change(
  'operator.createKey',
  async (tx, key: NewOperatorKey): Promise<void> => {
    await tx.run(
      `INSERT INTO operator_key (id, name, scopes, allowed_networks, secret_hash, created_at, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      key.id,
      key.name,
      JSON.stringify(key.scopes),
      listColumn(key.allowedNetworks),
      key.secretHash,
      key.createdAt,
      key.expiresAt,
    );
  },
  { ...TRAIL, action: 'operator-key.create' },
);

/** Returns a page of the keys that are not revoked, newest first. */
export const operatorKeysOperation = operation(
  'operator.keys',
  'read',
  async (tx, { before, limit }: { before: string | null; limit: number }): Promise<OperatorKey[]> => {
    const rows = await tx.all<KeyRow>(
      `SELECT ${COLUMNS} FROM operator_key WHERE revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      before ?? 'opk_~',
      limit,
    );
    return rows.map(keyOf);
  },
);

/** Returns false if there is no active key with this id. */
export const revokeOperatorKeyOperation = change(
  'operator.revokeKey',
  async (tx, { id, nowMs }: { id: string; nowMs: number }): Promise<boolean> =>
    (await tx.run('UPDATE operator_key SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL', nowMs, id)) === 1,
  { ...TRAIL, action: 'operator-key.revoke' },
);

const DUMMY_HASH = new Uint8Array(32);

/**
 * Finds an active key by id and hash. A row is read and a hash compared even if the id does not exist (the nearest older key is used), so
 * the response time does not reveal which ids exist.
 */
export const findOperatorKeyOperation = operation(
  'operator.findKey',
  'read',
  async (tx, { id, secretHash }: { id: string; secretHash: Uint8Array }): Promise<OperatorKey | null> => {
    const row = await tx.get<KeyRow & { secret_hash: Uint8Array; revoked_at: number | null }>(
      `SELECT ${COLUMNS}, secret_hash, revoked_at FROM operator_key WHERE id <= ? ORDER BY id DESC LIMIT 1`,
      id,
    );
    const isSameHash = timingSafeEqual(row?.secret_hash ?? DUMMY_HASH, secretHash);
    if (!row || row.id !== id || !isSameHash || row.revoked_at !== null) return null;
    return keyOf(row);
  },
);

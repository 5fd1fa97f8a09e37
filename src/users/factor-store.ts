/** The rows of second factors: the TOTP secret (encrypted), recovery codes, passkeys, and used challenges. */
import { change } from '../audit/audit.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { insertMany, type TableRow, table } from '../storage/rows.ts';
import { USER_COLUMNS, userOf } from './store.ts';
import { hasSecondFactor, requiringAccount } from './two-factor-store.ts';
import { tokenTable, type User } from './user.ts';

const recoveryTable = table('recovery_code', { userId: 'text', codeHash: 'bytes' });
const passkeyTable = table('passkey', {
  id: 'text',
  userId: 'text',
  name: 'text',
  publicKey: 'bytes',
  counter: 'int',
  transports: 'text',
  createdAt: 'int',
});

async function lockUser(tx: Transaction, userId: string): Promise<void> {
  await tx.run('UPDATE app_user SET email = email WHERE id = ?', userId);
}

/**
 * Marks a session as signed in with a second factor, after it set up the first one of its user. If the user already had one, the session
 * must sign in with it instead.
 */
async function markSecondFactor(tx: Transaction, sessionId: string): Promise<void> {
  await tx.run(
    "UPDATE user_session SET signed_in_with = 'second-factor' WHERE id = ? AND signed_in_with = 'password'",
    sessionId,
  );
}

/** Stores a secret that becomes active once a code of it is confirmed; returns false if one is already active. */
export const offerTotpOperation = operation(
  'users.offerTotp',
  'write',
  async (tx, { userId, sealed }: { userId: string; sealed: Uint8Array }): Promise<boolean> =>
    (await tx.run(
      'UPDATE app_user SET totp_secret = ?, totp_last_step = NULL WHERE id = ? AND totp_confirmed_at IS NULL',
      sealed,
      userId,
    )) === 1,
);

/** Reads the secret that is not confirmed yet. */
export const offeredTotpOperation = operation(
  'users.offeredTotp',
  'read',
  async (tx, userId: string): Promise<Uint8Array | null> =>
    (
      await tx.get<{ sealed: Uint8Array | null }>(
        'SELECT totp_secret AS sealed FROM app_user WHERE id = ? AND totp_confirmed_at IS NULL',
        userId,
      )
    )?.sealed ?? null,
);

export interface TotpConfirmation {
  userId: string;
  sessionId: string;
  sealed: Uint8Array;
  /** Time step of the given code, which cannot be used again. */
  step: number;
  codeHashes: Uint8Array[];
  nowMs: number;
}

/** Returns false if the pending secret is no longer `sealed`. */
export const confirmTotpOperation = change(
  'users.confirmTotp',
  async (tx, { userId, sessionId, sealed, step, codeHashes, nowMs }: TotpConfirmation): Promise<boolean> => {
    await lockUser(tx, userId);
    const isFirst = !(await hasSecondFactor(tx, userId));
    const changed = await tx.run(
      `UPDATE app_user SET totp_confirmed_at = ?, totp_last_step = ?
       WHERE id = ? AND totp_secret = ? AND totp_confirmed_at IS NULL`,
      nowMs,
      step,
      userId,
      sealed,
    );
    if (changed === 0) return false;
    await tx.run('DELETE FROM recovery_code WHERE user_id = ?', userId);
    await insertMany(
      tx,
      recoveryTable,
      codeHashes.map((codeHash) => ({ userId, codeHash })),
    );
    if (isFirst) await markSecondFactor(tx, sessionId);
    return true;
  },
  { action: 'totp.confirm', resourceId: ({ userId }) => userId, did: (_, isDone) => (isDone ? {} : undefined) },
);

/** `requiredBy`: nothing was removed, because the account of this name requires two-factor authentication and no other factor is left. */
export type FactorRemoved = 'removed' | 'unknown' | { requiredBy: string };

export const removeTotpOperation = change(
  'users.removeTotp',
  async (tx, userId: string): Promise<FactorRemoved> => {
    await lockUser(tx, userId);
    const isLast = await tx.get(
      `SELECT 1 AS found FROM app_user u WHERE u.id = ? AND u.totp_confirmed_at IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM passkey p WHERE p.user_id = u.id)`,
      userId,
    );
    const requiredBy = isLast && (await requiringAccount(tx, userId));
    if (requiredBy !== undefined) return { requiredBy };
    await tx.run('DELETE FROM recovery_code WHERE user_id = ?', userId);
    const changed = await tx.run(
      'UPDATE app_user SET totp_secret = NULL, totp_confirmed_at = NULL WHERE id = ? AND totp_secret IS NOT NULL',
      userId,
    );
    return changed === 1 ? 'removed' : 'unknown';
  },
  {
    action: 'totp.remove',
    resourceId: (userId) => userId,
    did: (_, removed) => (removed === 'removed' ? {} : undefined),
  },
);

/** Removes the authenticator app, recovery codes, and passkeys of a user, and ends all sessions. Returns the id of the user; null if there is none. */
export const resetFactorsOperation = change(
  'users.resetFactors',
  async (tx, { email }: { email: string }): Promise<string | null> => {
    const row = await tx.get<{ id: string }>(
      'UPDATE app_user SET totp_secret = NULL, totp_confirmed_at = NULL WHERE email = ? RETURNING id',
      email,
    );
    if (row === undefined) return null;
    for (const table of ['recovery_code', 'passkey', 'user_session'])
      await tx.run(`DELETE FROM ${table} WHERE user_id = ?`, row.id);
    return row.id;
  },
  {
    action: 'two-factor.reset',
    resourceId: (_, userId) => userId,
    did: ({ email }, userId) => (userId === null ? undefined : { email }),
  },
);

export interface Passkey {
  id: string;
  userId: string;
  name: string;
  publicKey: Uint8Array;
  counter: number;
  /** The browser's names, comma-separated. */
  transports: string;
  createdAt: number;
  lastUsedAt: number | null;
}

const PASSKEY_COLUMNS = `p.id, p.user_id AS "userId", p.name, p.public_key AS "publicKey", p.counter, p.transports,
  p.created_at AS "createdAt", p.last_used_at AS "lastUsedAt"`;

/** Newest first. */
export const passkeysOperation = operation('users.passkeys', 'read', (tx, userId: string) =>
  tx.all<Passkey>(
    `SELECT ${PASSKEY_COLUMNS} FROM passkey p WHERE p.user_id = ? ORDER BY p.created_at DESC, p.id DESC LIMIT 100`,
    userId,
  ),
);

/** A used challenge: no other response to it is accepted. */
export type Answered = TableRow<typeof tokenTable>;

export type PasskeyAdded = 'added' | 'answered-already' | 'known-already' | 'full';

export const addPasskeyOperation = change(
  'users.addPasskey',
  async (
    tx,
    {
      passkey,
      sessionId,
      answered,
      mayHaveAtMost,
    }: { passkey: TableRow<typeof passkeyTable>; sessionId: string; answered: Answered; mayHaveAtMost: number },
  ): Promise<PasskeyAdded> => {
    const { id, userId } = passkey;
    await lockUser(tx, userId);
    if ((await tx.get('SELECT 1 AS found FROM user_token WHERE token_hash = ?', answered.tokenHash)) !== undefined)
      return 'answered-already';
    if ((await tx.get('SELECT 1 AS found FROM passkey WHERE id = ?', id)) !== undefined) return 'known-already';
    const has = await tx.get<{ n: number }>('SELECT count(*) AS n FROM passkey WHERE user_id = ?', userId);
    if ((has?.n ?? 0) >= mayHaveAtMost) return 'full';
    const isFirst = !(await hasSecondFactor(tx, userId));
    await insertMany(tx, tokenTable, [answered]);
    await insertMany(tx, passkeyTable, [passkey]);
    if (isFirst) await markSecondFactor(tx, sessionId);
    return 'added';
  },
  {
    action: 'passkey.add',
    resourceId: ({ passkey }) => passkey.id,
    did: ({ passkey }, added) => (added === 'added' ? { name: passkey.name } : undefined),
  },
);

export const removePasskeyOperation = change(
  'users.removePasskey',
  async (tx, { id, userId }: { id: string; userId: string }): Promise<FactorRemoved> => {
    await lockUser(tx, userId);
    const isLast = await tx.get(
      `SELECT 1 AS found FROM passkey k JOIN app_user u ON u.id = k.user_id
       WHERE k.id = ? AND u.id = ? AND u.totp_confirmed_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM passkey p WHERE p.user_id = u.id AND p.id <> k.id)`,
      id,
      userId,
    );
    const requiredBy = isLast && (await requiringAccount(tx, userId));
    if (requiredBy !== undefined) return { requiredBy };
    const changed = await tx.run('DELETE FROM passkey WHERE id = ? AND user_id = ?', id, userId);
    return changed === 1 ? 'removed' : 'unknown';
  },
  {
    action: 'passkey.remove',
    resourceId: ({ id }) => id,
    did: (_, removed) => (removed === 'removed' ? {} : undefined),
  },
);

export interface PasskeyHolder {
  passkey: Passkey;
  user: User;
}

export const findPasskeyOperation = operation(
  'users.findPasskey',
  'read',
  async (tx, id: string): Promise<PasskeyHolder | null> => {
    const passkey = await tx.get<Passkey>(`SELECT ${PASSKEY_COLUMNS} FROM passkey p WHERE p.id = ?`, id);
    if (passkey === undefined) return null;
    const row = await tx.get<Parameters<typeof userOf>[0]>(
      `SELECT ${USER_COLUMNS} FROM app_user u WHERE u.id = ?`,
      passkey.userId,
    );
    return row === undefined ? null : { passkey, user: userOf(row) };
  },
);

export interface PasskeyUse {
  id: string;
  counter: number;
  nowMs: number;
  answered: Answered;
}

/** Returns false if the challenge was already used, the passkey was deleted, or a concurrent login stored the same or a higher counter. */
export const usePasskeyOperation = operation(
  'users.usePasskey',
  'write',
  async (tx, { id, counter, nowMs, answered }: PasskeyUse): Promise<boolean> => {
    const changed = await tx.run(
      `UPDATE passkey SET counter = ?, last_used_at = ?
       WHERE id = ? AND (counter < ? OR counter = 0) AND NOT EXISTS (SELECT 1 FROM user_token WHERE token_hash = ?)`,
      counter,
      nowMs,
      id,
      counter,
      answered.tokenHash,
    );
    if (changed === 0) return false;
    await insertMany(tx, tokenTable, [answered]);
    return true;
  },
);

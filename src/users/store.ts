/**
 * The rows of users and of the links with which they set a password, and the first run. Memberships are in member-store.ts, logins in
 * session-store.ts.
 */
import {
  type Account,
  insertAccount,
  insertCredential,
  insertKey,
  type NewCredentialRow,
  type NewKeyRow,
} from '../accounts/accounts.ts';
import { change } from '../audit/audit.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { insertMany, type TableRow } from '../storage/rows.ts';
import { type Attempt, takeReset } from './limits.ts';
import { membershipTable, tokenTable, type User, userTable } from './user.ts';

export type NewUser = TableRow<typeof userTable>;
export type NewToken = TableRow<typeof tokenTable>;

interface UserRow {
  id: string;
  email: string;
  is_operator: number;
  totp_confirmed_at: number | null;
}

export const USER_COLUMNS = 'u.id, u.email, u.is_operator, u.totp_confirmed_at';

export function userOf(row: UserRow): User {
  return {
    id: row.id,
    email: row.email,
    isOperator: row.is_operator === 1,
    hasTotp: row.totp_confirmed_at !== null,
  };
}

export async function insertUser(tx: Transaction, user: NewUser): Promise<boolean> {
  return (await insertMany(tx, userTable, [user], 'ON CONFLICT (email) DO NOTHING')) === 1 && isStored(tx, user);
}

/** On SQLite, insertMany also counts a row that a conflict skipped, so this checks whose address it is. */
async function isStored(tx: Transaction, { id, email }: NewUser): Promise<boolean> {
  return (await tx.get<{ id: string }>('SELECT id FROM app_user WHERE email = ?', email))?.id === id;
}

async function removeLinks(tx: Transaction, userId: string): Promise<void> {
  await tx.run("DELETE FROM user_token WHERE user_id = ? AND purpose <> 'answered'", userId);
}

/** Replaces earlier links of the user. */
export async function putToken(tx: Transaction, token: NewToken): Promise<void> {
  await removeLinks(tx, token.userId);
  await insertMany(tx, tokenTable, [token]);
}

export interface FirstRunRows {
  marker: string;
  account: Account;
  keys: NewKeyRow[];
  credentials: NewCredentialRow[];
  user: NewUser;
  token: NewToken;
}

/** Stores the rows of the first run. Returns false, and stores nothing, if the first run is already done. */
export const firstRunOperation = change(
  'users.firstRun',
  async (tx, args: FirstRunRows): Promise<boolean> => {
    const { account, user } = args;
    const fresh = await tx.run(
      'INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING',
      args.marker,
      String(account.createdAt),
    );
    if (fresh === 0) return false;
    await insertAccount(tx, account);
    for (const key of args.keys) await insertKey(tx, key);
    for (const credential of args.credentials) await insertCredential(tx, credential);
    await insertMany(tx, userTable, [user]);
    const owner = { accountId: account.id, userId: user.id, role: 'owner', createdAt: user.createdAt };
    await insertMany(tx, membershipTable, [owner]);
    await insertMany(tx, tokenTable, [args.token]);
    return true;
  },
  {
    action: 'account.create',
    table: 'account',
    shows: ['name', 'plan', 'status'],
    where: ({ account }) => ({ id: account.id }),
  },
);

export const userByEmailOperation = operation(
  'users.byEmail',
  'read',
  async (tx, email: string): Promise<User | null> => {
    const row = await tx.get<UserRow>(`SELECT ${USER_COLUMNS} FROM app_user u WHERE u.email = ?`, email);
    return row === undefined ? null : userOf(row);
  },
);

/** Returns false if the address already has a user. */
export const createUserOperation = change('users.create', (tx, user: NewUser) => insertUser(tx, user), {
  action: 'user.create',
  resourceId: ({ id }) => id,
  did: ({ email, isOperator }, isCreated) => (isCreated ? { email, isOperator: isOperator === 1 } : undefined),
});

export interface PasswordReset {
  email: string;
  passwordHash: string;
  /** A link to set a new password. */
  token: Omit<NewToken, 'userId'>;
}

/** An operator's reset: sets a new password and ends all sessions. Returns the user's id, or null if no user has this address. */
export const resetByOperatorOperation = change(
  'users.resetByOperator',
  async (tx, args: PasswordReset): Promise<string | null> => {
    const row = await tx.get<{ id: string }>(
      'UPDATE app_user SET password_hash = ? WHERE email = ? RETURNING id',
      args.passwordHash,
      args.email,
    );
    if (row === undefined) return null;
    await tx.run('DELETE FROM user_session WHERE user_id = ?', row.id);
    await putToken(tx, { ...args.token, userId: row.id });
    return row.id;
  },
  {
    action: 'password.reset',
    resourceId: (_, userId) => userId,
    did: ({ email }, userId) => (userId === null ? undefined : { email }),
  },
);

export interface ResetRequest extends Attempt {
  email: string;
  token: Omit<NewToken, 'userId'>;
}

/**
 * Stores a link for the user of this address, if there is one and not too many were requested; returns the user's id. Anyone can request a
 * link, so it replaces only earlier ones of its kind: invitations and links that an operator passes on stay valid.
 */
export const requestResetOperation = operation(
  'users.requestReset',
  'write',
  async (tx, { email, token, ...attempt }: ResetRequest): Promise<string | null> => {
    if ('waitMs' in (await takeReset(tx, attempt))) return null;
    const row = await tx.get<{ id: string }>('SELECT id FROM app_user WHERE email = ?', email);
    if (row === undefined) return null;
    await tx.run("DELETE FROM user_token WHERE user_id = ? AND purpose = 'reset' AND by_mail = 1", row.id);
    await insertMany(tx, tokenTable, [{ ...token, userId: row.id }]);
    return row.id;
  },
);

/** Returns the user of a valid link. */
export const tokenUserOperation = operation(
  'users.tokenUser',
  'read',
  async (tx, args: { tokenHash: Uint8Array; nowMs: number }): Promise<{ id: string; email: string } | null> =>
    (await tx.get<{ id: string; email: string }>(
      `SELECT u.id, u.email FROM user_token t JOIN app_user u ON u.id = t.user_id
       WHERE t.token_hash = ? AND t.expires_at > ? AND t.purpose <> 'answered'`,
      args.tokenHash,
      args.nowMs,
    )) ?? null,
);

/** Sets a password with a link: every link and every session of the user ends with it. Null if the link is not valid. */
export const setByTokenOperation = change(
  'users.setByToken',
  async (tx, args: { tokenHash: Uint8Array; passwordHash: string; nowMs: number }): Promise<User | null> => {
    const token = await tx.get<{ user_id: string; by_mail: number }>(
      `DELETE FROM user_token WHERE token_hash = ? AND expires_at > ? AND purpose <> 'answered' RETURNING user_id, by_mail`,
      args.tokenHash,
      args.nowMs,
    );
    if (token === undefined) return null;
    const row = await tx.get<UserRow>(
      `UPDATE app_user AS u SET password_hash = ?, email_verified = CASE WHEN ? = 1 THEN 1 ELSE email_verified END
       WHERE id = ? RETURNING ${USER_COLUMNS.replaceAll('u.', '')}`,
      args.passwordHash,
      token.by_mail,
      token.user_id,
    );
    await endSessionsAndLinks(tx, token.user_id, null);
    return row === undefined ? null : userOf(row);
  },
  {
    action: 'password.set',
    resourceId: (_, user) => user?.id ?? null,
    did: (_, user) => (user === null ? undefined : { email: user.email }),
  },
);

/** Ends the sessions of a user, except one, and deletes every link. */
async function endSessionsAndLinks(tx: Transaction, userId: string, keptSessionId: string | null): Promise<void> {
  await tx.run('DELETE FROM user_session WHERE user_id = ? AND id <> ?', userId, keptSessionId ?? '');
  await removeLinks(tx, userId);
}

/** Sets a password after the previous one was verified. Returns false if `oldHash` is no longer the user's. */
export const changePasswordOperation = change(
  'users.changePassword',
  async (
    tx,
    args: { userId: string; oldHash: string; passwordHash: string; keptSessionId: string },
  ): Promise<boolean> => {
    const changed = await tx.run(
      'UPDATE app_user SET password_hash = ? WHERE id = ? AND password_hash = ?',
      args.passwordHash,
      args.userId,
      args.oldHash,
    );
    if (changed === 1) await endSessionsAndLinks(tx, args.userId, args.keptSessionId);
    return changed === 1;
  },
  {
    action: 'password.change',
    resourceId: ({ userId }) => userId,
    did: (_, isChanged) => (isChanged ? {} : undefined),
  },
);

/** Returns whether the service's own mail can be expected to arrive: an account has verified a domain. */
export const sendsMailOperation = operation('users.sendsMail', 'read', async (tx, _: null): Promise<boolean> => {
  return (await tx.get("SELECT 1 AS found FROM domain WHERE status = 'verified' LIMIT 1")) !== undefined;
});

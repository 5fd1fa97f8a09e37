/** The rows of SMTP credentials and of the users of the portal. Passwords come here as argon2id hashes. */
import type { Mode } from '../base/mode.ts';
import { type CapReached, capReached } from '../caps/caps.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import type { Account } from './account.ts';
import { type PageRequest, type Revocation, readAccount, revoke } from './account-row.ts';
import { sendersColumn, sendersOf } from './allowed-senders.ts';

export interface NewCredentialRow {
  id: string;
  accountId: string;
  mode: Mode;
  username: string;
  /** Bound to none when absent. */
  allowedSenders?: readonly string[];
  passwordHash: string;
  createdAt: number;
}

export interface NewUserRow {
  id: string;
  email: string;
  accountId: string | null;
  isOperator: boolean;
  passwordHash: string;
  createdAt: number;
}

export async function insertCredential(tx: Transaction, row: NewCredentialRow): Promise<void> {
  await tx.run(
    `INSERT INTO smtp_credential (id, account_id, mode, username, allowed_senders, password_hash, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.accountId,
    row.mode,
    row.username,
    sendersColumn(row.allowedSenders),
    row.passwordHash,
    row.createdAt,
  );
}

export async function insertUser(tx: Transaction, user: NewUserRow): Promise<boolean> {
  const changed = await tx.run(
    `INSERT INTO operator_user (id, email, account_id, is_operator, password_hash, created_at)
     VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (email) DO NOTHING`,
    user.id,
    user.email,
    user.accountId,
    user.isOperator ? 1 : 0,
    user.passwordHash,
    user.createdAt,
  );
  return changed === 1;
}

export interface CredentialRecord {
  id: string;
  accountId: string;
  mode: Mode;
  username: string;
  allowedSenders: readonly string[];
  createdAt: number;
}

export type CredentialOutcome = 'created' | 'unknown-account' | 'plan-not-eligible' | CapReached;

export const createCredentialOperation = operation(
  'accounts.createCredential',
  'write',
  async (tx, row: NewCredentialRow): Promise<CredentialOutcome> => {
    const { accountId } = row;
    const account = await readAccount(tx, accountId);
    if (!account) return 'unknown-account';
    if (account.plan === 'free') return 'plan-not-eligible';
    const inForce = 'SELECT count(*) AS n FROM smtp_credential WHERE account_id = ? AND revoked_at IS NULL';
    const reached = await capReached(tx, { accountId, cap: 'smtpCredentials', count: [inForce, accountId] });
    if (reached) return reached;
    await insertCredential(tx, row);
    return 'created';
  },
);

export const credentialsOperation = operation(
  'accounts.credentials',
  'read',
  async (tx, args: PageRequest & { accountId: string }): Promise<CredentialRecord[]> => {
    const rows = await tx.all<Omit<CredentialRecord, 'allowedSenders'> & { senders: string | null }>(
      `SELECT id, account_id AS "accountId", mode, username, allowed_senders AS senders, created_at AS "createdAt"
       FROM smtp_credential WHERE account_id = ? AND revoked_at IS NULL AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'smtp_~',
      args.limit,
    );
    return rows.map(({ senders, ...row }) => ({ ...row, allowedSenders: sendersOf(senders) }));
  },
);

export const revokeCredentialOperation = operation('accounts.revokeCredential', 'write', (tx, revocation: Revocation) =>
  revoke(tx, 'smtp_credential', revocation),
);

/** A living credential with its account and the hash of its password. */
export interface CredentialHolder {
  credentialId: string;
  mode: Mode;
  allowedSenders: readonly string[];
  passwordHash: string;
  account: Account;
}

interface CredentialRow {
  id: string;
  account_id: string;
  mode: Mode;
  allowed_senders: string | null;
  password_hash: string;
}

export const findCredentialOperation = operation(
  'accounts.findCredential',
  'read',
  async (tx, username: string): Promise<CredentialHolder | null> => {
    const row = await tx.get<CredentialRow>(
      `SELECT id, account_id, mode, allowed_senders, password_hash
       FROM smtp_credential WHERE username = ? AND revoked_at IS NULL`,
      username,
    );
    const account = row && (await readAccount(tx, row.account_id));
    if (!row || !account) return null;
    const allowedSenders = sendersOf(row.allowed_senders);
    return { credentialId: row.id, mode: row.mode, allowedSenders, passwordHash: row.password_hash, account };
  },
);

export type UserOutcome = 'created' | 'email-taken';

export const createUserOperation = operation(
  'accounts.createUser',
  'write',
  async (tx, user: NewUserRow): Promise<UserOutcome> => ((await insertUser(tx, user)) ? 'created' : 'email-taken'),
);

/** Answers the user's id, or null when nobody has this address. */
export const setPasswordOperation = operation(
  'accounts.setPassword',
  'write',
  async (tx, args: { email: string; passwordHash: string }): Promise<string | null> => {
    const row = await tx.get<{ id: string }>(
      'UPDATE operator_user SET password_hash = ? WHERE email = ? RETURNING id',
      args.passwordHash,
      args.email,
    );
    return row?.id ?? null;
  },
);

/** Whom to write to about an account. */
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

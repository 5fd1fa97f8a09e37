/**
 * The rows of memberships. An account always keeps an owner: the last one is neither removed nor demoted. A user without any account who is
 * not an operator is deleted with all their data.
 */
import { change } from '../audit/audit.ts';
import type { MemberRole } from '../http/route.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { insertMany } from '../storage/rows.ts';
import { takeReset, type Wait } from './limits.ts';
import { insertUser, type NewToken, type NewUser, putToken } from './store.ts';
import { membershipTable } from './user.ts';

export interface Member {
  userId: string;
  email: string;
  role: MemberRole;
  hasPassword: boolean;
  hasTotp: boolean;
  passkeys: number;
  createdAt: number;
  lastSignInAt: number | null;
}

interface MemberRow {
  userId: string;
  email: string;
  role: MemberRole;
  hasPassword: number;
  hasTotp: number;
  passkeys: number;
  createdAt: number;
  lastSignInAt: number | null;
}

const MEMBER_COLUMNS = `m.user_id AS "userId", u.email, m.role, m.created_at AS "createdAt", u.last_sign_in_at AS "lastSignInAt",
  CASE WHEN u.password_hash IS NULL THEN 0 ELSE 1 END AS "hasPassword",
  CASE WHEN u.totp_confirmed_at IS NULL THEN 0 ELSE 1 END AS "hasTotp",
  (SELECT count(*) FROM passkey p WHERE p.user_id = u.id) AS passkeys`;

function memberOf(row: MemberRow): Member {
  return { ...row, hasPassword: row.hasPassword === 1, hasTotp: row.hasTotp === 1 };
}

/** Newest users first. */
export const membersOperation = operation(
  'users.members',
  'read',
  async (tx, args: { accountId: string; before: string | null; limit: number }): Promise<Member[]> => {
    const rows = await tx.all<MemberRow>(
      `SELECT ${MEMBER_COLUMNS} FROM membership m JOIN app_user u ON u.id = m.user_id
       WHERE m.account_id = ? AND m.user_id < ? ORDER BY m.user_id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'usr_~',
      args.limit,
    );
    return rows.map(memberOf);
  },
);

async function readMember(tx: Transaction, accountId: string, userId: string): Promise<Member | undefined> {
  const row = await tx.get<MemberRow>(
    `SELECT ${MEMBER_COLUMNS} FROM membership m JOIN app_user u ON u.id = m.user_id
     WHERE m.account_id = ? AND m.user_id = ?`,
    accountId,
    userId,
  );
  return row && memberOf(row);
}

export interface Invitation {
  accountId: string;
  role: MemberRole;
  /** Created if the address has no user yet. */
  user: NewUser;
  /** For a user without a password. */
  token: NewToken;
  mayHaveAtMost: number;
  /** Whether the inviter is an operator, who may confirm addresses. */
  byOperator: boolean;
  /** limitedName() of the address. */
  name: string;
  nowMs: number;
}

/** `unproven`: it was never confirmed that the address belongs to that user, so the account is not shared with them. */
export type Invited =
  | { outcome: 'invited' | 'added'; member: Member }
  | ({ outcome: 'too-often' } & Wait)
  | { outcome: 'member-already' | 'unproven' | 'full' };

/**
 * Makes the user of this address a member. A user with a password only has to log in. Any other user gets a link, which replaces earlier
 * ones, so a person who has an old link does not get access to this account.
 */
export const inviteOperation = change(
  'users.invite',
  async (tx, args: Invitation): Promise<Invited> => {
    const { accountId, role, user } = args;
    await tx.get(`SELECT id FROM account WHERE id = ? ${locked(tx)}`, accountId);
    const count = await tx.get<{ n: number }>('SELECT count(*) AS n FROM membership WHERE account_id = ?', accountId);
    if ((count?.n ?? 0) >= args.mayHaveAtMost) return { outcome: 'full' };
    const read = () =>
      tx.get<{ id: string; password_hash: string | null; email_verified: number; others: number }>(
        `SELECT id, password_hash, email_verified, (SELECT count(*) FROM membership WHERE user_id = app_user.id) AS others
       FROM app_user WHERE email = ?`,
        user.email,
      );
    const there = await read();
    if (there !== undefined && (await readMember(tx, accountId, there.id)) !== undefined)
      return { outcome: 'member-already' };
    const isNew = (there?.password_hash ?? null) === null;
    const isUnproven = isNew ? args.token.byMail === 0 && (there?.others ?? 0) > 0 : there?.email_verified === 0;
    if (isUnproven && !args.byOperator) return { outcome: 'unproven' };
    // The email may go to a person who did not request it.
    const attempt = { name: args.name, address: accountId, nowMs: args.nowMs };
    const taken = await takeReset(tx, attempt);
    if ('waitMs' in taken) return { outcome: 'too-often', ...taken };
    if (there === undefined) await insertUser(tx, user);
    const found = there ?? (await read())!;
    const membership = { accountId, userId: found.id, role, createdAt: user.createdAt };
    await insertMany(tx, membershipTable, [membership]);
    if (isNew) await putToken(tx, { ...args.token, userId: found.id });
    const member = (await readMember(tx, accountId, found.id))!;
    return { outcome: isNew ? 'invited' : 'added', member };
  },
  {
    action: 'user.invite',
    resourceId: (_, invited) => ('member' in invited ? invited.member.userId : null),
    did: ({ role }, invited) => ('member' in invited ? { email: invited.member.email, role } : undefined),
  },
);

/** Returns whether the account would have no owner without this member. Locks the account. */
async function isLastOwner(tx: Transaction, accountId: string, userId: string): Promise<boolean> {
  await tx.get(`SELECT id FROM account WHERE id = ? ${locked(tx)}`, accountId);
  const others = await tx.get(
    "SELECT 1 AS found FROM membership WHERE account_id = ? AND role = 'owner' AND user_id <> ? LIMIT 1",
    accountId,
    userId,
  );
  return others === undefined;
}

export type MemberChanged = Member | 'unknown' | 'last-owner';

export const changeRoleOperation = change(
  'users.changeRole',
  async (tx, args: { accountId: string; userId: string; role: MemberRole }): Promise<MemberChanged> => {
    const { accountId, userId, role } = args;
    const member = await readMember(tx, accountId, userId);
    if (member === undefined) return 'unknown';
    if (member.role === 'owner' && role !== 'owner' && (await isLastOwner(tx, accountId, userId))) return 'last-owner';
    await tx.run('UPDATE membership SET role = ? WHERE account_id = ? AND user_id = ?', role, accountId, userId);
    return { ...member, role };
  },
  {
    action: 'user.change-role',
    table: 'membership',
    shows: ['user_id', 'role'],
    where: ({ accountId, userId }) => ({ account_id: accountId, user_id: userId }),
  },
);

export const removeMemberOperation = change(
  'users.removeMember',
  async (tx, { accountId, userId }: { accountId: string; userId: string }): Promise<MemberChanged> => {
    const member = await readMember(tx, accountId, userId);
    if (member === undefined) return 'unknown';
    if (member.role === 'owner' && (await isLastOwner(tx, accountId, userId))) return 'last-owner';
    await tx.run('DELETE FROM membership WHERE account_id = ? AND user_id = ?', accountId, userId);
    await tx.run(
      `DELETE FROM app_user WHERE id = ? AND is_operator = 0
         AND NOT EXISTS (SELECT 1 FROM membership WHERE user_id = app_user.id)`,
      userId,
    );
    return member;
  },
  {
    action: 'user.remove',
    table: 'membership',
    shows: ['user_id', 'role'],
    where: ({ accountId, userId }) => ({ account_id: accountId, user_id: userId }),
  },
);

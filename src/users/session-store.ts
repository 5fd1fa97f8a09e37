/**
 * Stores logins: attempts, sessions, and the known IP addresses of each user. Sessions are found by the SHA-256 of the browser's token. One
 * transaction stores a login, uses up its one-time code, and ends the browser's previous session.
 */
import { type Account, readAccount } from '../accounts/accounts.ts';
import { change } from '../audit/audit.ts';
import type { MemberRole } from '../http/route.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { insertMany } from '../storage/rows.ts';
import {
  type Attempt,
  KNOWN_FOR_MS,
  LONGEST_TAKEN_MS,
  returnTokens,
  type TakenTokens,
  takeAttempt,
  type Wait,
} from './limits.ts';
import { USER_COLUMNS, userOf } from './store.ts';
import { supportAccessOf } from './support-store.ts';
import { totpStep } from './totp.ts';
import type { SignInMethod } from './two-factor.ts';
import { hasSecondFactor } from './two-factor-store.ts';
import { type Membership, type NewSession, type Session, sessionTable, type User } from './user.ts';

/** Maximum number of sessions per user; sessions that have been idle the longest end first. */
const MAX_SESSIONS = 50;

export interface Candidate {
  user: User;
  passwordHash: string | null;
  totpSecret: Uint8Array | null;
}

export type SignInAttempt = Wait | { taken: TakenTokens; isKnown: boolean; candidate: Candidate | null };

/** Counts a login attempt, and reads the credentials to check it against; `candidate` is null if no user has this email address. */
export const beginSignInOperation = operation(
  'users.beginSignIn',
  'write',
  async (tx, { email, ...attempt }: Attempt & { email: string }): Promise<SignInAttempt> => {
    const row = await tx.get<Parameters<typeof userOf>[0] & { password_hash: string | null; totp_secret: Uint8Array }>(
      `SELECT ${USER_COLUMNS}, u.password_hash, u.totp_secret FROM app_user u WHERE u.email = ?`,
      email,
    );
    const known = await tx.get(
      'SELECT 1 AS found FROM known_address WHERE user_id = ? AND address = ? AND seen_at > ?',
      row?.id ?? '',
      attempt.address,
      attempt.nowMs - KNOWN_FOR_MS,
    );
    const isKnown = known !== undefined;
    const taken = await takeAttempt(tx, attempt, isKnown);
    if ('waitMs' in taken) return taken;
    if (row === undefined) return { taken, isKnown, candidate: null };
    const user = userOf(row);
    const totpSecret = user.hasTotp ? row.totp_secret : null;
    return { taken, isKnown, candidate: { user, passwordHash: row.password_hash, totpSecret } };
  },
);

async function insertSession(tx: Transaction, session: NewSession): Promise<void> {
  await insertMany(tx, sessionTable, [session]);
  // The new session stays even if the others were used later, before the clock was set back.
  await tx.run(
    `DELETE FROM user_session WHERE id IN
       (SELECT id FROM user_session WHERE user_id = ? AND id <> ? ORDER BY last_seen_at DESC, id DESC LIMIT 1000 OFFSET ?)`,
    session.userId,
    session.id,
    MAX_SESSIONS - 1,
  );
  await tx.run('UPDATE app_user SET last_sign_in_at = ? WHERE id = ?', session.createdAt, session.userId);
  await tx.run(
    `INSERT INTO known_address (user_id, address, seen_at) VALUES (?, ?, ?)
     ON CONFLICT (user_id, address) DO UPDATE SET seen_at = excluded.seen_at`,
    session.userId,
    session.address,
    session.createdAt,
  );
}

export interface SignIn {
  session: NewSession;
  /** Token hash of this browser's previous session, which ends; null if there is none. */
  formerTokenHash: Uint8Array | null;
  taken: TakenTokens;
  /** Set if a password was verified: its hash, which must still be the user's. */
  passwordHash?: string;
  /**
   * The time step of the given code; this and earlier steps cannot be used again. A used step that is later than any code can have was
   * stored before the clock was set back, and has no effect.
   */
  totpStep?: number;
  recoveryCodeHash?: Uint8Array;
}

/** Completes a login; returns false if the password was changed in the meantime, or if the code was already used. */
export const completeSignInOperation = change(
  'users.completeSignIn',
  async (tx, args: SignIn): Promise<boolean> => {
    const { session, passwordHash = null, totpStep: givenStep = null, recoveryCodeHash } = args;
    const changed = await tx.run(
      `UPDATE app_user SET totp_last_step = coalesce(?, totp_last_step)
       WHERE id = ? AND coalesce(password_hash, '') = coalesce(?, password_hash, '')
         AND (coalesce(totp_last_step, -1) < ? OR totp_last_step > ?)`,
      givenStep,
      session.userId,
      passwordHash,
      givenStep ?? Number.MAX_SAFE_INTEGER,
      totpStep(session.createdAt) + 1,
    );
    if (changed === 0) return false;
    if (recoveryCodeHash !== undefined) {
      const used = await tx.run(
        'DELETE FROM recovery_code WHERE user_id = ? AND code_hash = ?',
        session.userId,
        recoveryCodeHash,
      );
      if (used === 0) return false;
    }
    if (args.formerTokenHash !== null)
      await tx.run('DELETE FROM user_session WHERE token_hash = ?', args.formerTokenHash);
    await insertSession(tx, session);
    await returnTokens(tx, args.taken);
    return true;
  },
  {
    action: 'session.begin',
    resourceId: ({ session }) => session.id,
    did: ({ session }, isBegun) => (isBegun ? { userAgent: session.userAgent } : undefined),
  },
);

/** A session with its user's role in an account, read for authentication. */
export interface FoundSession {
  session: Session;
  user: User;
  hasSecondFactor: boolean;
  member: Membership | null;
}

const SESSION_COLUMNS = `s.id AS "sessionId", s.user_id AS "userId", s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt",
  s.expires_at AS "expiresAt", s.address, s.user_agent AS "userAgent", s.signed_in_with AS "signedInWith"`;

type SessionRow = Omit<Session, 'id'> & { sessionId: string };

function sessionOf(row: SessionRow): Session {
  const { sessionId: id, userId, createdAt, lastSeenAt, expiresAt, address, userAgent, signedInWith } = row;
  return { id, userId, createdAt, lastSeenAt, expiresAt, address, userAgent, signedInWith };
}

export const findSessionOperation = operation(
  'users.findSession',
  'read',
  async (tx, args: { tokenHash: Uint8Array; accountId: string | null }): Promise<FoundSession | null> => {
    const row = await tx.get<SessionRow & Parameters<typeof userOf>[0]>(
      `SELECT ${SESSION_COLUMNS}, ${USER_COLUMNS} FROM user_session s JOIN app_user u ON u.id = s.user_id
       WHERE s.token_hash = ?`,
      args.tokenHash,
    );
    if (row === undefined) return null;
    const membership =
      args.accountId === null
        ? undefined
        : await tx.get<{ role: MemberRole }>(
            'SELECT role FROM membership WHERE account_id = ? AND user_id = ?',
            args.accountId,
            row.userId,
          );
    const account: Account | undefined = membership && (await readAccount(tx, args.accountId!));
    const [support] =
      membership === undefined && args.accountId !== null
        ? await supportAccessOf(tx, row.sessionId, args.accountId)
        : [];
    const member = membership && account ? { role: membership.role, account } : (support ?? null);
    return {
      session: sessionOf(row),
      user: userOf(row),
      hasSecondFactor: await hasSecondFactor(tx, row.userId),
      member,
    };
  },
);

/** Records that the session was used; at most once a minute. */
export const touchSessionOperation = operation(
  'users.touchSession',
  'write',
  (tx, { id, nowMs }: { id: string; nowMs: number }) =>
    tx.run('UPDATE user_session SET last_seen_at = ? WHERE id = ? AND last_seen_at < ?', nowMs, id, nowMs),
);

/** Returns active sessions, newest first. */
export const sessionsOperation = operation(
  'users.sessions',
  'read',
  async (tx, args: { userId: string; nowMs: number; idleSinceMs: number }): Promise<Session[]> => {
    const rows = await tx.all<SessionRow>(
      `SELECT ${SESSION_COLUMNS} FROM user_session s
       WHERE s.user_id = ? AND s.expires_at > ? AND s.last_seen_at > ? ORDER BY s.id DESC`,
      args.userId,
      args.nowMs,
      args.idleSinceMs,
    );
    return rows.map(sessionOf);
  },
);

/** Ends a session; returns false if the user has no such session. */
export const endSessionOperation = change(
  'users.endSession',
  async (tx, { id, userId }: { id: string; userId: string }): Promise<boolean> =>
    (await tx.run('DELETE FROM user_session WHERE id = ? AND user_id = ?', id, userId)) === 1,
  { action: 'session.end', did: (_, isEnded) => (isEnded ? {} : undefined), resourceId: ({ id }) => id },
);

/** The values that GET /session shows in addition to the user. */
export interface Profile {
  /** The user's memberships, followed by the accounts with support access. */
  memberships: Membership[];
  recoveryCodes: number;
  passkeys: number;
  signedInWith: SignInMethod;
}

interface ProfileOf {
  userId: string;
  /** Empty if there is no session yet. */
  sessionId: string;
  nowMs: number;
}

export const profileOperation = operation('users.profile', 'read', async (tx, args: ProfileOf): Promise<Profile> => {
  const { userId, sessionId, nowMs } = args;
  const rows = await tx.all<{ account_id: string; role: MemberRole }>(
    'SELECT account_id, role FROM membership WHERE user_id = ? ORDER BY account_id LIMIT 1000',
    userId,
  );
  const memberships: Membership[] = [];
  for (const { account_id, role } of rows) {
    const account = await readAccount(tx, account_id);
    if (account !== undefined) memberships.push({ role, account });
  }
  const support = await supportAccessOf(tx, sessionId, null);
  memberships.push(...support.filter(({ supportAccessUntil = 0 }) => supportAccessUntil > nowMs));
  const count = async (table: 'recovery_code' | 'passkey'): Promise<number> =>
    (await tx.get<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE user_id = ?`, userId))?.n ?? 0;
  const session = await tx.get<{ signedInWith: SignInMethod }>(
    'SELECT signed_in_with AS "signedInWith" FROM user_session WHERE id = ?',
    sessionId,
  );
  return {
    memberships,
    recoveryCodes: await count('recovery_code'),
    passkeys: await count('passkey'),
    signedInWith: session?.signedInWith ?? 'password',
  };
});

/** Returns the hash of the user's current password. */
export const passwordHashOperation = operation(
  'users.passwordHash',
  'read',
  async (tx, userId: string): Promise<string | null> =>
    (await tx.get<{ hash: string | null }>('SELECT password_hash AS hash FROM app_user WHERE id = ?', userId))?.hash ??
    null,
);

export interface OldRows {
  nowMs: number;
  idleSinceMs: number;
  limit: number;
}

/** Removes a batch of ended sessions and support accesses, expired links and limits, and addresses that were not seen for a long time. */
export const removeOldOperation = operation('users.removeOld', 'write', async (tx, args: OldRows): Promise<number> => {
  const { nowMs, idleSinceMs, limit } = args;
  const remove = (table: string, key: string, where: string, ...params: number[]): Promise<number> | number =>
    tx.run(
      `DELETE FROM ${table} WHERE ${key} IN (SELECT ${key.replace(/[()]/g, '')} FROM ${table} WHERE ${where} LIMIT ?)`,
      ...params,
      limit,
    );
  const removed = [
    await remove('user_session', 'id', 'expires_at <= ? OR last_seen_at <= ?', nowMs, idleSinceMs),
    await remove('support_access', '(session_id, account_id)', 'expires_at <= ?', nowMs),
    await remove('user_token', 'token_hash', 'expires_at <= ?', nowMs),
    await remove('sign_in_limit', 'key', 'taken_until <= ? OR taken_until > ?', nowMs, nowMs + LONGEST_TAKEN_MS),
    await remove('known_address', '(user_id, address)', 'seen_at <= ?', nowMs - KNOWN_FOR_MS),
  ];
  return Math.max(...removed);
});

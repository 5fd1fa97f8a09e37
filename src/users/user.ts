/** Users, their memberships, and the tables of both. */
import type { Account } from '../accounts/accounts.ts';
import type { CallerKey, MemberRole } from '../http/route.ts';
import { table } from '../storage/rows.ts';
import type { Proof, SignInMethod } from './two-factor.ts';

export interface User {
  id: string;
  email: string;
  isOperator: boolean;
  /** Whether login requires a TOTP code. */
  hasTotp: boolean;
}

/** The caller of the routes of users and operators. */
export interface UserCaller extends CallerKey, Proof {
  user: User;
  sessionId: string;
  /** Unix ms. */
  signedInAt: number;
}

export interface Session {
  id: string;
  userId: string;
  createdAt: number;
  lastSeenAt: number;
  expiresAt: number;
  address: string;
  userAgent: string | null;
  signedInWith: SignInMethod;
}

export interface NewSession extends Session {
  tokenHash: Uint8Array;
}

export interface Membership {
  role: MemberRole;
  account: Account;
  /** When the support access of an operator who is not a member expires, Unix ms. */
  supportAccessUntil?: number;
}

export const userTable = table('app_user', {
  id: 'text',
  email: 'text',
  emailVerified: 'int',
  isOperator: 'int',
  passwordHash: 'text?',
  createdAt: 'int',
});

export const membershipTable = table('membership', {
  accountId: 'text',
  userId: 'text',
  role: 'text',
  createdAt: 'int',
});

export const sessionTable = table('user_session', {
  id: 'text',
  tokenHash: 'bytes',
  userId: 'text',
  createdAt: 'int',
  lastSeenAt: 'int',
  expiresAt: 'int',
  address: 'text',
  userAgent: 'text?',
  signedInWith: 'text',
});

export const tokenTable = table('user_token', {
  tokenHash: 'bytes',
  userId: 'text',
  purpose: 'text',
  byMail: 'int',
  createdAt: 'int',
  expiresAt: 'int',
});

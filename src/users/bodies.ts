/** Users, sessions, and members in the API, with their schemas. */
import type { TBoolean, TOptional } from 'typebox';
import { iso, isoOrNull } from '../base/clock.ts';
import { NOTICE_KINDS, type NoticeKind } from '../base/notice.ts';
import { MEMBER_ROLES } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import type { Member } from './member-store.ts';
import { NOTICE_TEXTS, type NoticeContacts, noticeRecipients } from './notice-store.ts';
import type { Profile } from './session-store.ts';
import { LONGEST_PASSWORD, MINIMUM_PASSWORD } from './sign-in.ts';
import { missingFactor } from './two-factor.ts';
import type { Session, User } from './user.ts';

const time = Type.String({ format: 'date-time' });
const nullableTime = Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' });
const role = oneOf([...MEMBER_ROLES], {
  description:
    'viewer: read only; member: everything except keys, credentials, users, approvals, and settings; owner: everything.',
});
const email = Type.String({ minLength: 3, maxLength: 320 });
const givenPassword = Type.String({ minLength: 1, maxLength: 1_024 });
const newPassword = Type.String({
  minLength: MINIMUM_PASSWORD,
  maxLength: LONGEST_PASSWORD,
  description: `At least ${MINIMUM_PASSWORD} characters.`,
});
const code = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'Six digits of the authenticator app, or a recovery code; required if an app is set up.',
});

export const signInRequest = named('SignInRequest', { email, password: givenPassword, code: Type.Optional(code) });
export const passwordResetRequest = named('PasswordResetRequest', { email });
export const passwordRequest = named('PasswordRequest', {
  password: newPassword,
  currentPassword: Type.Optional(givenPassword),
  token: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: 'The part of the link after #token=.' }),
  ),
});

export const signedInSchema = named('SignedInUser', {
  userId: Type.String(),
  email: Type.String(),
  isOperator: Type.Boolean({ description: 'Whether the user can call the /operator routes.' }),
  sessionId: Type.String(),
  twoFactor: closed({
    totp: Type.Boolean(),
    recoveryCodes: Type.Integer({ description: 'Number of unused recovery codes.' }),
    passkeys: Type.Integer(),
    missing: Type.Optional(
      oneOf(['setup', 'sign-in'], {
        description:
          'Why accounts with twoFactorRequired refuse the calls of this session: set up a second factor (setup), or sign in again with it (sign-in).',
      }),
    ),
  }),
  accounts: Type.Array(
    closed({
      accountId: Type.String(),
      name: Type.String(),
      role,
      plan: oneOf(['free', 'paid', 'enterprise']),
      status: oneOf(['active', 'suspended']),
      twoFactorRequired: Type.Boolean(),
      supportAccessUntil: Type.Optional(
        Type.String({
          format: 'date-time',
          description: 'You are not a member: you can read the account through support access until this time.',
        }),
      ),
    }),
  ),
});

export function signedInBody(user: User, sessionId: string, profile: Profile): Record<string, unknown> {
  const { signedInWith, recoveryCodes, passkeys } = profile;
  const missing = missingFactor({ signedInWith, hasSecondFactor: user.hasTotp || passkeys > 0 });
  return {
    userId: user.id,
    email: user.email,
    isOperator: user.isOperator,
    sessionId,
    twoFactor: { totp: user.hasTotp, recoveryCodes, passkeys, ...(missing !== undefined && { missing }) },
    accounts: profile.memberships.map(({ role, account, supportAccessUntil }) => ({
      accountId: account.id,
      name: account.name,
      role,
      plan: account.plan,
      status: account.status,
      twoFactorRequired: account.twoFactorRequired,
      ...(supportAccessUntil !== undefined && { supportAccessUntil: iso(supportAccessUntil) }),
    })),
  };
}

export const sessionSchema = named('Session', {
  sessionId: Type.String(),
  current: Type.Boolean({ description: 'True for the session of this call.' }),
  createdAt: time,
  lastSeenAt: time,
  expiresAt: time,
  address: Type.String({ description: 'IP address from which the session was started; for IPv6, its /64 network.' }),
  userAgent: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
});

export function sessionBody(session: Session, current: string): Record<string, unknown> {
  const { id, createdAt, lastSeenAt, expiresAt, address, userAgent } = session;
  return {
    sessionId: id,
    current: id === current,
    createdAt: iso(createdAt),
    lastSeenAt: iso(lastSeenAt),
    expiresAt: iso(expiresAt),
    address,
    userAgent,
  };
}

const memberFields = {
  userId: Type.String(),
  email: Type.String(),
  role,
  status: oneOf(['active', 'invited'], { description: 'invited: the user has not set a password yet.' }),
  totp: Type.Boolean({ description: 'Whether the user has an authenticator app.' }),
  passkeys: Type.Integer(),
  createdAt: time,
  lastSignInAt: nullableTime,
};
export const memberSchema = named('User', memberFields);
export const invitedSchema = named('InvitedUser', {
  ...memberFields,
  inviteUrl: Type.Optional(
    Type.String({
      description:
        'Link to pass on to the user, because this service cannot send mail yet. Valid for one week and one use.',
    }),
  ),
});
export const inviteRequest = named('InvitationRequest', { email, role: Type.Optional(role) });
export const roleRequest = named('RoleRequest', { role });

const noticeChoices = Object.fromEntries(
  NOTICE_KINDS.map((kind) => [kind, Type.Boolean({ description: NOTICE_TEXTS[kind] })]),
) as Record<NoticeKind, TBoolean>;
export const noticesSchema = named('Notices', {
  yours: Type.Unsafe<Record<NoticeKind, boolean> | null>({
    anyOf: [closed(noticeChoices), { type: 'null' }],
    description:
      'The kinds of notices that you receive; null if you are not a user of the account, such as an API key.',
  }),
  kinds: Type.Array(
    closed({
      kind: oneOf([...NOTICE_KINDS]),
      sentTo: oneOf(['users', 'operators', 'none'], {
        description:
          'users: the recipients. operators: the operators of the service, because no user who wants this kind has a reachable email address. none: everyone turned this kind off, or mail can reach neither the users nor the operators.',
      }),
      recipients: Type.Array(
        closed({ userId: Type.String(), email: Type.String() }, { description: 'A user who receives this kind.' }),
      ),
    }),
    { description: 'Every kind of notice, and who receives it.' },
  ),
});
export const noticesRequest = closed(
  Object.fromEntries(NOTICE_KINDS.map((kind) => [kind, Type.Optional(noticeChoices[kind])])) as Record<
    NoticeKind,
    TOptional<TBoolean>
  >,
  { title: 'NoticesRequest', minProperties: 1 },
);

export function noticesBody(contacts: NoticeContacts, userId: string): Record<string, unknown> {
  const own = contacts.users.find((user) => user.userId === userId);
  return {
    yours: own?.receives ?? null,
    kinds: NOTICE_KINDS.map((kind) => {
      const { sentTo, users } = noticeRecipients(contacts, kind);
      return { kind, sentTo, recipients: users.map(({ userId, email }) => ({ userId, email })) };
    }),
  };
}

export const twoFactorRequirement = named('TwoFactorRequirement', { required: Type.Boolean() });

export function memberBody(member: Member): Record<string, unknown> {
  const { userId, email, role, hasPassword, hasTotp, passkeys, createdAt, lastSignInAt } = member;
  return {
    userId,
    email,
    role,
    status: hasPassword ? 'active' : 'invited',
    totp: hasTotp,
    passkeys,
    createdAt: iso(createdAt),
    lastSignInAt: isoOrNull(lastSignInAt),
  };
}

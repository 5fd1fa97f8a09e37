/**
 * Which users of an account receive which notices. Owners and members receive every kind that they did not turn off; viewers receive the
 * kinds that they turned on. If mail can reach none of the users who receive a kind, the operators receive it.
 */
import { change } from '../audit/audit.ts';
import { type AnyNoticeKind, NOTICE_KINDS, type NoticeKind } from '../base/notice.ts';
import type { MemberRole } from '../http/route.ts';
import { type Address, parseAddress } from '../mail/address.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';

/** Each topic completes "notices about …". */
export const NOTICE_TOPICS: Readonly<Record<AnyNoticeKind, string>> = {
  account: 'the status',
  sendingProtection: 'sending protection',
  quotas: 'quotas',
  domains: 'domains',
  webhooks: 'webhooks',
};

export const NOTICE_TEXTS: Readonly<Record<NoticeKind, string>> = {
  sendingProtection: 'Live email is held, or may soon be held, because too many messages bounce or are marked as spam.',
  quotas: '80% or 100% of a quota is used.',
  domains: 'The DKIM record of a domain is missing, or a domain has new DKIM keys to publish.',
  webhooks: 'A webhook was disabled because its endpoint kept failing.',
};

type Choices = Partial<Record<NoticeKind, boolean>>;

interface NoticeUser {
  userId: string;
  email: string;
  role: MemberRole;
  receives: Record<NoticeKind, boolean>;
}

export interface NoticeContacts {
  users: NoticeUser[];
  /** Addresses of the operators; some of them may be users of the account too. */
  operators: string[];
}

export interface NoticeRecipients {
  sentTo: 'users' | 'operators' | 'none';
  /** False if everyone turned the kind off. */
  isWanted: boolean;
  /** The users among the recipients. */
  users: NoticeUser[];
  addresses: Address[];
}

interface ContactRow {
  userId: string;
  email: string;
  role: MemberRole;
  notices: string;
}

function userOf({ notices, ...user }: ContactRow): NoticeUser {
  const choices = JSON.parse(notices) as Choices;
  const receives = (kind: NoticeKind): boolean => choices[kind] ?? user.role !== 'viewer';
  return {
    ...user,
    receives: Object.fromEntries(NOTICE_KINDS.map((kind) => [kind, receives(kind)])) as NoticeUser['receives'],
  };
}

async function readContacts(tx: Transaction, accountId: string): Promise<NoticeContacts> {
  const rows = await tx.all<ContactRow>(
    `SELECT u.id AS "userId", u.email, m.role, m.notices FROM membership m JOIN app_user u ON u.id = m.user_id
     WHERE m.account_id = ? ORDER BY u.id`,
    accountId,
  );
  return { users: rows.map(userOf), operators: await readOperators(tx) };
}

async function readOperators(tx: Transaction): Promise<string[]> {
  const rows = await tx.all<{ email: string }>('SELECT email FROM app_user WHERE is_operator = 1 ORDER BY id');
  return rows.map(({ email }) => email);
}

export const noticeContactsOperation = operation('users.noticeContacts', 'read', readContacts);

export const operatorEmailsOperation = operation('users.operatorEmails', 'read', (tx, _: null) => readOperators(tx));

/** Returns undefined for an address that mail cannot reach, such as operator@localhost, which the first run creates. */
export function reachable(email: string): Address | undefined {
  const parsed = parseAddress(email);
  return parsed.ok ? parsed.value : undefined;
}

/** Returns who receives notices of this kind. */
export function noticeRecipients({ users, operators }: NoticeContacts, kind: AnyNoticeKind): NoticeRecipients {
  const wants = ({ role, receives }: NoticeUser): boolean => (kind === 'account' ? role !== 'viewer' : receives[kind]);
  const isWanted = users.some(wants) || users.every(({ role }) => role === 'viewer');
  const chosen = users.filter((user) => wants(user) && reachable(user.email) !== undefined);
  if (chosen.length > 0)
    return {
      sentTo: 'users',
      isWanted,
      users: chosen,
      addresses: chosen.flatMap(({ email }) => reachable(email) ?? []),
    };
  const addresses = isWanted ? operators.flatMap((email) => reachable(email) ?? []) : [];
  return { sentTo: addresses.length > 0 ? 'operators' : 'none', isWanted, users: [], addresses };
}

/** Changes the kinds that a user receives. Returns false if the user is not a user of the account. */
export const chooseNoticesOperation = change(
  'users.chooseNotices',
  async (
    tx,
    { accountId, userId, choices }: { accountId: string; userId: string; choices: Choices },
  ): Promise<boolean> => {
    const row = await tx.get<{ notices: string }>(
      `SELECT notices FROM membership WHERE account_id = ? AND user_id = ? ${locked(tx)}`,
      accountId,
      userId,
    );
    if (row === undefined) return false;
    const notices = { ...(JSON.parse(row.notices) as Choices), ...choices };
    await tx.run(
      'UPDATE membership SET notices = ? WHERE account_id = ? AND user_id = ?',
      JSON.stringify(notices),
      accountId,
      userId,
    );
    return true;
  },
  {
    action: 'user.choose-notices',
    table: 'membership',
    shows: ['user_id', 'notices'],
    where: ({ accountId, userId }) => ({ account_id: accountId, user_id: userId }),
  },
);

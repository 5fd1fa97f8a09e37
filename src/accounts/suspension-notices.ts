/**
 * Notifies the users of an account by email that an operator suspended or reactivated it. The change of the status stores the notice in its
 * own transaction (store.ts). The notice stays stored until it is sent; its key prevents a duplicate after a crash.
 */
import { newId } from '../base/ids.ts';
import type { Notice } from '../base/notice.ts';
import { type NoticeRoundOptions, startNoticeRounds } from '../base/notice-rounds.ts';
import type { Rounds } from '../base/rounds.ts';
import type { Database } from '../storage/database.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import type { AccountStatus } from './account.ts';

const ROUND_MS = 5_000;
const NOTICES_AT_ONCE = 100;

export interface StatusChange {
  accountId: string;
  status: AccountStatus;
  /** The operator's text about a suspension; null if there is none. */
  reason: string | null;
  /** Unix ms. */
  at: number;
}

interface StatusNotice extends StatusChange {
  id: string;
}

/** Stores the notice of a changed status, in the transaction that changes it. */
export async function storeStatusNotice(tx: Transaction, { accountId, status, reason, at }: StatusChange) {
  await tx.run(
    'INSERT INTO account_notice (id, account_id, status, reason, at) VALUES (?, ?, ?, ?, ?)',
    newId('ntc', at),
    accountId,
    status,
    reason,
    at,
  );
}

/** Returns notices that are not sent, oldest first, after the given id. */
export const statusNoticesOperation = operation(
  'accounts.statusNotices',
  'read',
  (tx, { after, limit }: { after: string; limit: number }) =>
    tx.all<StatusNotice>(
      'SELECT id, account_id AS "accountId", status, reason, at FROM account_notice WHERE id > ? ORDER BY id LIMIT ?',
      after,
      limit,
    ),
);

/** Deletes a notice that was sent. */
export const statusNoticeSentOperation = operation(
  'accounts.statusNoticeSent',
  'write',
  async (tx, id: string): Promise<void> => {
    await tx.run('DELETE FROM account_notice WHERE id = ?', id);
  },
);

function noticeOf({ id, accountId, status, reason, at }: StatusNotice): Notice {
  const about = { accountId, kind: 'account', key: id } as const;
  const time = ['Time', { atMs: at }] as const;
  if (status === 'active')
    return {
      ...about,
      subject: 'Your account is active again',
      parts: ['Your operator reactivated the account. Queued email is being sent.', { facts: [time] }],
    };
  return {
    ...about,
    subject: 'Your account was suspended',
    parts: [
      'Your operator suspended the account. Postrider rejects its API calls with 403 ACCOUNT_SUSPENDED and its SMTP logins with 535. Queued email is held, and is sent when the account is active again. Contact your operator.',
      { facts: [time, ...(reason === null ? [] : [['Reason', reason] as const])] },
    ],
  };
}

export interface SuspensionNoticeOptions extends NoticeRoundOptions {
  database: Database;
}

/** Sends stored notices every five seconds. */
export function startSuspensionNotices({ database, ...options }: SuspensionNoticeOptions): Rounds {
  return startNoticeRounds<StatusNotice>(options, {
    name: 'suspension notices',
    everyMs: ROUND_MS,
    due: async function* () {
      for (let after = '', isLast = false; !isLast; ) {
        const notices = await database.execute(statusNoticesOperation, { after, limit: NOTICES_AT_ONCE });
        yield* notices;
        after = notices.at(-1)?.id ?? after;
        isLast = notices.length < NOTICES_AT_ONCE;
      }
    },
    noticeOf,
    sent: ({ id }) => database.execute(statusNoticeSentOperation, id),
  });
}

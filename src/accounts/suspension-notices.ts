/**
 * Notifies the users of an account by email that an operator suspended or reactivated it. The change of the status stores the notice in its
 * own transaction (store.ts), whoever makes it. The notice stays stored until it is sent; its key prevents a duplicate after a crash.
 */
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Notice, Notify } from '../base/notice.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
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
    ...[newId('ntc', at), accountId, status, reason, at],
  );
}

/** Returns notices that are not sent, oldest first, after the given id. */
export const statusNoticesOperation = operation(
  'accounts.statusNotices',
  'read',
  (tx, { after, limit }: { after: string; limit: number }) =>
    tx.all<StatusNotice>(
      'SELECT id, account_id AS "accountId", status, reason, at FROM account_notice WHERE id > ? ORDER BY id LIMIT ?',
      ...[after, limit],
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

function letterOf({ id, accountId, status, reason, at }: StatusNotice): Notice {
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

export interface SuspensionNoticeOptions {
  database: Database;
  log: Log;
  notify: Notify;
  /** Whether this process sends the notices. */
  isChosen?: () => boolean;
  roundMs?: number;
}

/** Sends stored notices every five seconds. A notice that cannot be sent does not delay others and is retried in the next round. */
export function startSuspensionNotices({
  database,
  log,
  notify,
  isChosen = () => true,
  roundMs = ROUND_MS,
}: SuspensionNoticeOptions): Rounds {
  return startRounds({
    name: 'suspension notices',
    everyMs: roundMs,
    log,
    round: async (isStopping) => {
      if (!isChosen()) return;
      for (let after = ''; ; ) {
        const notices = await database.execute(statusNoticesOperation, { after, limit: NOTICES_AT_ONCE });
        for (const notice of notices) {
          if (isStopping()) return;
          const { id, accountId } = notice;
          after = id;
          try {
            await notify(letterOf(notice));
          } catch (error) {
            if (error instanceof Unavailable) throw error;
            log.warn({ accountId, cause: (error as Error).message }, 'account notification failed');
            continue;
          }
          await database.execute(statusNoticeSentOperation, id);
        }
        if (notices.length < NOTICES_AT_ONCE) return;
      }
    },
  });
}

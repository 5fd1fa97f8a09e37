/** Notifies accounts by email when they have used 80 and 100 percent of a quota: once per period, unless the quota is raised meanwhile. */
import { iso } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Notice, Notify } from '../base/notice.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import type { Database } from '../storage/database.ts';
import {
  PERIODS,
  periodOf,
  type QuotaNotice,
  quotaNoticeGivenOperation,
  quotaNoticesOperation,
} from './quota-store.ts';

const ROUND_MS = 60_000;
const NOTICES_AT_ONCE = 100;

export interface QuotaNoticeOptions {
  database: Database;
  log: Log;
  notify: Notify;
  /** Whether this process sends the notices. */
  isChosen?: () => boolean;
  roundMs?: number;
}

export function startQuotaNotices({
  database,
  log,
  notify,
  isChosen = () => true,
  roundMs = ROUND_MS,
}: QuotaNoticeOptions): Rounds {
  return startRounds({
    name: 'quota notices',
    everyMs: roundMs,
    log,
    round: async (isStopping) => {
      if (!isChosen()) return;
      for (const notice of await database.execute(quotaNoticesOperation, NOTICES_AT_ONCE)) {
        if (isStopping()) return;
        const { accountId, quota, level, used, most } = notice;
        try {
          await notify(letterOf(notice));
        } catch (error) {
          if (error instanceof Unavailable) throw error;
          log.warn({ accountId, cause: (error as Error).message }, 'account notification failed');
          continue;
        }
        await database.execute(quotaNoticeGivenOperation, notice);
        log.info({ accountId, quota, level, used, most }, 'account notified of its quota');
      }
    },
  });
}

function letterOf({ accountId, quota, level, most, used, startMs }: QuotaNotice): Notice {
  const period = PERIODS[quota];
  const { endMs } = periodOf(quota, startMs);
  const isUsedUp = level === 100;
  return {
    accountId,
    kind: 'quotas',
    key: `${accountId}:quota-${quota}-${level}:${iso(startMs)}:${most}`,
    subject: isUsedUp
      ? `You have used up your messages for this ${period}`
      : `You have used ${level}% of your messages for this ${period}`,
    parts: [
      {
        facts: [
          ['Used', `${used} of ${most} live messages (limits.${quota} in GET /account)`],
          ['Resets at', { atMs: endMs }],
        ],
      },
      isUsedUp
        ? 'Until the quota resets, Postrider refuses live email that exceeds it, with 429 QUOTA_EXCEEDED over HTTP and 451 4.7.0 over SMTP. Email that was accepted earlier is still delivered.'
        : 'When the quota is used up, Postrider refuses more live email until it resets.',
      'Your operator can raise the quota.',
    ],
  };
}

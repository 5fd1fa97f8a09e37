/** Notifies accounts by email when they have used 80 and 100 percent of a quota: once per period, unless the quota is raised meanwhile. */
import { iso } from '../base/clock.ts';
import type { Notice } from '../base/notice.ts';
import { type NoticeRoundOptions, startNoticeRounds } from '../base/notice-rounds.ts';
import type { Rounds } from '../base/rounds.ts';
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

export interface QuotaNoticeOptions extends NoticeRoundOptions {
  database: Database;
}

export function startQuotaNotices({ database, ...options }: QuotaNoticeOptions): Rounds {
  return startNoticeRounds<QuotaNotice>(options, {
    name: 'quota notices',
    everyMs: ROUND_MS,
    due: async function* () {
      yield* await database.execute(quotaNoticesOperation, NOTICES_AT_ONCE);
    },
    noticeOf,
    sent: async (notice) => {
      await database.execute(quotaNoticeGivenOperation, notice);
      const { accountId, quota, level, used, most } = notice;
      options.log.info({ accountId, quota, level, used, most }, 'account notified of its quota');
    },
  });
}

function noticeOf({ accountId, quota, level, most, used, startMs }: QuotaNotice): Notice {
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

/**
 * Notifies accounts that one of their endpoints was disabled. A notice is retried until it is sent; its key prevents a duplicate after a
 * crash.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Notice, Notify } from '../base/notice.ts';
import type { Database } from '../storage/database.ts';
import { isFreeOnly } from '../work/work.ts';
import { claimNoticesOperation, type DueNotice, settleNoticeOperation } from './notice-store.ts';

const LEASE_MS = 60_000;
const RETRY_MS = 60_000;
const BATCH = 20;

/** Returns the URL without parts that may be secret. */
function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function noticeOf(due: DueNotice): Notice {
  const { accountId, mode, webhookId, reason, disabledAt } = due;
  const url = shownUrl(due.url);
  return {
    accountId,
    kind: 'webhooks',
    key: `${webhookId}:${disabledAt}`,
    subject: `Webhook disabled: ${url.slice(0, 200)}`,
    parts: [
      `Postrider disabled a webhook of your account: ${reason}.`,
      {
        facts: [
          ['Endpoint', url],
          ['Webhook', webhookId],
          ['Mode', mode],
          ['Time', { atMs: disabledAt }],
        ],
      },
      'The webhook receives no events, but Postrider stores them. Once the endpoint works again, enable the webhook and replay the missed events: in the portal under Webhooks, or with the API:',
      { code: [`PATCH /webhooks/${webhookId} with "enabled": true`, `POST /webhooks/${webhookId}/replay`] },
    ],
  };
}

export interface NoticeDeps {
  database: Database;
  clock: Clock;
  log: Log;
  notify: Notify;
}

/** Sends all due notices. Rejects if the storage fails. */
export async function sendDueNotices({ database, clock, log, notify }: NoticeDeps): Promise<void> {
  for (;;) {
    const freeOnly = isFreeOnly(database.state());
    const claim = { nowMs: clock.now(), leaseMs: LEASE_MS, limit: BATCH, freeOnly };
    const due = await database.execute(claimNoticesOperation, claim);
    for (const notice of due) {
      const { seq, fence, webhookId } = notice;
      let againAtMs: number | null = null;
      try {
        await notify(noticeOf(notice));
      } catch (error) {
        log.warn({ webhook: webhookId, error: (error as Error).message }, 'account notification failed');
        againAtMs = clock.now() + RETRY_MS;
      }
      await database.execute(settleNoticeOperation, { lease: { seq, fence }, againAtMs });
    }
    if (due.length < BATCH) return;
  }
}

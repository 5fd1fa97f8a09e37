/**
 * Pending notices to accounts about their endpoints: a separate kind of work, created in the transaction that disables an endpoint, so that
 * neither exists without the other.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import * as queue from '../work/work.ts';

/** The kind of these rows; the subject is the endpoint's id. */
const NOTICE_WORK = 'webhook-notice';

export interface Disabled {
  webhookId: string;
  accountId: string;
  mode: Mode;
  nowMs: number;
}

export async function enqueueNotice(tx: Transaction, disabled: Disabled): Promise<void> {
  const { webhookId, accountId, mode, nowMs } = disabled;
  const kind = NOTICE_WORK;
  await queue.enqueue(tx, [{ kind, accountId, mode, subject: webhookId, ref: 0, lane: webhookId, dueMs: nowMs }]);
}

export interface DueNotice extends queue.Lease {
  accountId: string;
  mode: Mode;
  webhookId: string;
  url: string;
  reason: string;
  /** Unix ms. */
  disabledAt: number;
}

export interface NoticeClaim {
  nowMs: number;
  leaseMs: number;
  limit: number;
  /** Whether leased rows are skipped, even if their lease has ended. */
  freeOnly?: boolean;
}

/** Claims notices to send; skips endpoints that no longer exist or are enabled again, and notices that crashed the process too often. */
export const claimNoticesOperation = operation(
  'webhooks.claimNotices',
  'write',
  async (tx, claim: NoticeClaim): Promise<DueNotice[]> => {
    const due: DueNotice[] = [];
    for (const work of await queue.claim(tx, { kind: NOTICE_WORK, quarantined: true, ...claim })) {
      const row = await tx.get<{ url: string; reason: string; updated_at: number }>(
        'SELECT url, disabled_reason AS reason, updated_at FROM webhook WHERE id = ? AND enabled = 0 AND disabled_reason IS NOT NULL',
        work.subject,
      );
      if (!row || work.crashes >= queue.DEAD_LETTER_AFTER_CRASHES) {
        await queue.finish(tx, [work]);
        continue;
      }
      const { seq, fence, account_id: accountId, mode, subject: webhookId } = work;
      const { url, reason, updated_at: disabledAt } = row;
      due.push({ seq, fence, accountId, mode, webhookId, url, reason, disabledAt });
    }
    return due;
  },
);

/** Ends a notice that was sent, or defers one that could not be. */
export const settleNoticeOperation = operation(
  'webhooks.settleNotice',
  'write',
  async (tx, { lease, againAtMs }: { lease: queue.Lease; againAtMs: number | null }): Promise<boolean> => {
    const kept = await (againAtMs === null
      ? queue.finish(tx, [lease])
      : queue.reschedule(tx, [{ ...lease, dueMs: againAtMs, tried: true }]));
    return kept.size === 1;
  },
);

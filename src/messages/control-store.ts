/** The operator's view of the queue from the command line, and the retry of a message. */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { operation } from '../storage/operation.ts';
import { clockOffsetOf } from '../work/work.ts';
import { DELIVERY_WORK, MESSAGE_TRAIL, type MessageStatus, messageColumns } from './message.ts';
import { transition } from './state-machine.ts';

export interface QueueStatus {
  /** Messages that are waiting or being delivered. */
  depth: number;
  /** Due now and not yet claimed. */
  due: number;
  /** Held by a worker. */
  leased: number;
  /** Held because their destination is at its limit. */
  held: number;
  /** Attempted at least once. */
  deferred: number;
  /** Unix ms; null if nothing is due. */
  oldestDueMs: number | null;
}

export const queueStatusOperation = operation(
  'messages.queueStatus',
  'read',
  async (tx, nowMs: number): Promise<QueueStatus> => {
    const row = await tx.get<QueueStatus>(
      `SELECT count(*) AS depth,
         coalesce(sum(CASE WHEN leased = 0 AND held = 0 AND due <= ? THEN 1 ELSE 0 END), 0) AS due,
         coalesce(sum(CASE WHEN leased > 0 THEN 1 ELSE 0 END), 0) AS leased,
         coalesce(sum(held), 0) AS held,
         coalesce(sum(CASE WHEN attempts > 0 THEN 1 ELSE 0 END), 0) AS deferred,
         min(CASE WHEN leased = 0 AND due <= ? THEN due END) AS "oldestDueMs"
       FROM work WHERE kind = ?`,
      nowMs,
      nowMs,
      DELIVERY_WORK,
    );
    return row as QueueStatus;
  },
);

export interface QueuedMessage {
  workSeq: number;
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Address of the client that submitted the mail; null if unknown. */
  clientAddress: string | null;
}

/** Returns the queued message with this id, of any account; null if it is not in the queue. */
export const findQueuedOperation = operation(
  'messages.findQueued',
  'read',
  async (tx, messageId: string): Promise<QueuedMessage | null> => {
    const row = await tx.get<QueuedMessage>(
      `SELECT w.seq AS "workSeq", w.account_id AS "accountId", w.mode, w.subject AS "messageId",
         e.client_address AS "clientAddress"
       FROM work w LEFT JOIN email e ON e.seq = w.ref WHERE w.kind = ? AND w.subject = ?`,
      DELIVERY_WORK,
      messageId,
    );
    return row ?? null;
  },
);

export type RetryOutcome = { retried: true; status: MessageStatus } | { retried: false; reason: 'gone' | 'sending' };

/**
 * Makes a queued message due now, including a scheduled or held one; its retry schedule continues where it is. A scheduled message becomes
 * queued, because it no longer waits for its time. Returns the new status.
 */
export const retryOperation = change(
  'messages.retry',
  async (tx, args: QueuedMessage & { nowMs: number }): Promise<RetryOutcome> => {
    const work = await tx.get<{ leased: number }>(
      'SELECT leased FROM work WHERE seq = ? AND subject = ?',
      args.workSeq,
      args.messageId,
    );
    if (!work) return { retried: false, reason: 'gone' };
    if (work.leased > 0) return { retried: false, reason: 'sending' };
    const hastened = await tx.run(
      'UPDATE work SET due = ?, held = 0 WHERE seq = ? AND leased = 0',
      args.nowMs,
      args.workSeq,
    );
    if (hastened === 0) return { retried: false, reason: 'sending' };
    const { accountId, mode, messageId } = args;
    const nextAttemptAtMs = args.nowMs + (await clockOffsetOf(tx, args));
    const message = await tx.get<{ status: MessageStatus }>(
      'UPDATE message SET next_attempt_at = ? WHERE account_id = ? AND mode = ? AND id = ? RETURNING status',
      nextAttemptAtMs,
      accountId,
      mode,
      messageId,
    );
    if (!message) return { retried: false, reason: 'gone' };
    if (message.status !== 'scheduled') return { retried: true, status: message.status };
    await transition(tx, { accountId, mode, messageId, to: 'queued', atMs: nextAttemptAtMs, nextAttemptAtMs });
    return { retried: true, status: 'queued' };
  },
  { ...MESSAGE_TRAIL, action: 'message.retry', where: (key) => messageColumns(key) },
);

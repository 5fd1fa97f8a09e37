/** What an operator asks of the queue from the command line: how it stands, and that a message be tried now. */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { operation } from '../storage/operation.ts';
import { clockOffsetOf } from '../work/work.ts';
import { DELIVERY_WORK, MESSAGE_TRAIL, type MessageStatus, messageColumns } from './message.ts';

export interface QueueStatus {
  /** Messages that are waiting or being delivered. */
  depth: number;
  /** Due now and not taken yet. */
  due: number;
  /** In the hands of a worker. */
  leased: number;
  /** Set aside because their destination is full. */
  held: number;
  /** Tried at least once. */
  deferred: number;
  /** Unix ms; null when nothing is due. */
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
  /** Of the client that handed the mail in; null where it is not known. */
  clientAddress: string | null;
}

/** The waiting message with this id, of whatever account; null when nothing of it is in the queue. */
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

/** Makes a waiting message due now, a scheduled or held one too; its schedule of retries goes on from where it is. */
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
    const message = await tx.get<{ status: MessageStatus }>(
      'UPDATE message SET next_attempt_at = ? WHERE account_id = ? AND mode = ? AND id = ? RETURNING status',
      args.nowMs + (await clockOffsetOf(tx, args)),
      args.accountId,
      args.mode,
      args.messageId,
    );
    return message ? { retried: true, status: message.status } : { retried: false, reason: 'gone' };
  },
  { ...MESSAGE_TRAIL, action: 'message.retry', where: (key) => messageColumns(key) },
);

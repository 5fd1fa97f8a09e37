/**
 * The states of a message and the only code that writes them. Every change of state appends its event in the same
 * transaction; a change that the table does not allow is refused and changes nothing.
 *
 *   scheduled → queued → (sending: held by a worker, not stored) → delivered → bounced (late report) | complained
 *                  ↑        ├→ delayed → tried again at its next attempt
 *                  │        └→ bounced
 *   suppressed (never leaves)    scheduled | queued | delayed → cancelled
 *
 * `sending` is not written to the row: a lease on the work row says it, so that an attempt costs one transaction, not
 * two.
 */
import type { Mode } from '../base/mode.ts';
import { appendEvent, type EventType } from '../events/events.ts';
import type { Transaction } from '../storage/operation.ts';
import type { MessageStatus } from './message.ts';

const FROM: Record<MessageStatus, readonly MessageStatus[]> = {
  scheduled: ['scheduled'],
  queued: ['scheduled', 'queued', 'delayed'],
  sending: [],
  delayed: ['scheduled', 'queued', 'delayed'],
  delivered: ['scheduled', 'queued', 'delayed'],
  bounced: ['scheduled', 'queued', 'delayed', 'delivered'],
  complained: ['delivered', 'complained'],
  suppressed: [],
  cancelled: ['scheduled', 'queued', 'delayed'],
};

export interface Transition {
  accountId: string;
  mode: Mode;
  messageId: string;
  to: MessageStatus;
  /** Unix ms; the event carries a later time when the message was last changed after it, never an earlier one. */
  atMs: number;
  /** Number of attempts to record, or undefined to leave it. */
  attempts?: number;
  nextAttemptAtMs?: number | null;
  /** The event of this change; none for a repeated delay. */
  event?: { id: string; type: EventType; detail: Record<string, unknown> };
}

/** Applies the change and appends its event; false when the message is not in a state that allows it. */
export async function transition(tx: Transaction, change: Transition): Promise<boolean> {
  const allowed = FROM[change.to];
  const row = await tx.get<{ updated_at: number }>(
    `UPDATE message SET status = ?, updated_at = max(updated_at, ?), attempts = coalesce(?, attempts),
       next_attempt_at = ?, work_seq = CASE WHEN ? = 1 THEN NULL ELSE work_seq END
     WHERE account_id = ? AND mode = ? AND id = ? AND status IN (${allowed.map((one) => `'${one}'`).join(', ')})
     RETURNING updated_at`,
    change.to,
    change.atMs,
    change.attempts ?? null,
    change.nextAttemptAtMs ?? null,
    change.to === 'queued' || change.to === 'delayed' || change.to === 'scheduled' ? 0 : 1,
    change.accountId,
    change.mode,
    change.messageId,
  );
  if (!row) return false;
  if (change.event) {
    await appendEvent(tx, {
      ...change.event,
      accountId: change.accountId,
      mode: change.mode,
      messageId: change.messageId,
      at: row.updated_at,
    });
  }
  return true;
}

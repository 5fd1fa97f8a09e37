/**
 * The states of a message and the only code that writes them. Every change of state appends its event in the same
 * transaction; a change that the table does not allow is refused and changes nothing.
 *
 *   scheduled → queued → (sending: held by a worker, not stored) → delivered → bounced (late report) | complained
 *                  ↑        ├→ delayed → tried again at its next attempt
 *                  │        └→ bounced
 *   suppressed (never leaves)    scheduled | queued | delayed → cancelled | suppressed (before an attempt)
 *
 * The events of one message are at least a millisecond apart, in their order: their times tell which came first.
 *
 * `sending` is not written to the row: a lease on the work row says it, so that an attempt costs one transaction, not
 * two.
 */
import type { Mode } from '../base/mode.ts';
import { appendEvents, type EventType } from '../events/events.ts';
import type { Transaction } from '../storage/operation.ts';
import { bigintArray, textArray } from '../storage/postgres/arrays.ts';
import type { MessageStatus } from './message.ts';

const FROM: Record<MessageStatus, readonly MessageStatus[]> = {
  scheduled: ['scheduled'],
  queued: ['scheduled', 'queued', 'delayed'],
  sending: [],
  delayed: ['scheduled', 'queued', 'delayed'],
  delivered: ['scheduled', 'queued', 'delayed'],
  bounced: ['scheduled', 'queued', 'delayed', 'delivered'],
  complained: ['delivered', 'complained'],
  suppressed: ['scheduled', 'queued', 'delayed'],
  cancelled: ['scheduled', 'queued', 'delayed'],
};

/** Whether the message stays in the queue. */
const WAITING: readonly MessageStatus[] = ['scheduled', 'queued', 'delayed'];

export interface Transition {
  accountId: string;
  mode: Mode;
  messageId: string;
  to: MessageStatus;
  /** Unix ms, by the clock of the mode; the event carries a later time where the message was last changed then or after it. */
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
    `UPDATE message SET status = ?, updated_at = CASE WHEN updated_at >= ? THEN updated_at + 1 ELSE ? END,
       attempts = coalesce(?, attempts), next_attempt_at = ?, work_seq = CASE WHEN ? = 1 THEN NULL ELSE work_seq END
     WHERE account_id = ? AND mode = ? AND id = ? AND status IN (${allowed.map((one) => `'${one}'`).join(', ')})
     RETURNING updated_at`,
    change.to,
    change.atMs,
    change.atMs,
    change.attempts ?? null,
    change.nextAttemptAtMs ?? null,
    WAITING.includes(change.to) ? 0 : 1,
    change.accountId,
    change.mode,
    change.messageId,
  );
  if (!row) return false;
  if (change.event) {
    const { accountId, mode, messageId } = change;
    await appendEvents(tx, [{ ...change.event, accountId, mode, messageId, at: row.updated_at }]);
  }
  return true;
}

export interface ManyTransitions extends Pick<Transition, 'accountId' | 'mode' | 'messageId' | 'to' | 'atMs'> {
  /** Number of attempts to record, or null to leave it. */
  attempts: number | null;
  nextAttemptAtMs: number | null;
}

/**
 * The same for many messages in one statement of PostgreSQL, without their events: answers at which time each was changed, by its
 * id. Messages that were in no state that allows it are missing.
 */
export async function transitionMany(
  tx: Transaction,
  changes: readonly ManyTransitions[],
): Promise<Map<string, number>> {
  if (changes.length === 0) return new Map();
  // The lowest and the highest id say which partitions are concerned, and spare the others.
  const ids = changes.map((change) => change.messageId).sort();
  const allowed = Object.entries(FROM).flatMap(([to, from]) => from.map((one) => `('${to}', '${one}')`));
  const rows = await tx.all<{ id: string; updated_at: number }>(
    `UPDATE message AS m SET status = new.status, updated_at = greatest(m.updated_at + 1, new.at),
       attempts = coalesce(new.attempts, m.attempts), next_attempt_at = new.next_attempt_at,
       work_seq = CASE WHEN new.status IN (${WAITING.map((one) => `'${one}'`).join(', ')}) THEN m.work_seq END
     FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]),
         CAST(? AS BIGINT[]), CAST(? AS BIGINT[])) AS new (account_id, mode, id, status, at, attempts, next_attempt_at)
     WHERE m.account_id = new.account_id AND m.mode = new.mode AND m.id = new.id
       AND (new.status, m.status) IN (${allowed.join(', ')})
       AND m.id >= ? AND m.id <= ?
     RETURNING m.id, m.updated_at`,
    textArray(changes.map((change) => change.accountId)),
    textArray(changes.map((change) => change.mode)),
    textArray(changes.map((change) => change.messageId)),
    textArray(changes.map((change) => change.to)),
    bigintArray(changes.map((change) => change.atMs)),
    bigintArray(changes.map((change) => change.attempts)),
    bigintArray(changes.map((change) => change.nextAttemptAtMs)),
    ids[0]!,
    ids.at(-1)!,
  );
  return new Map(rows.map((row) => [row.id, row.updated_at]));
}

/** What a recipient did with a message, which changes no state. */
export interface Engagement {
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Unix ms, by the clock of the mode; as for a transition, the event carries a later time than the one before it. */
  atMs: number;
  event: { id: string; type: 'Open' | 'Click' | 'Unsubscribe'; detail: Record<string, unknown> };
}

/** Appends the event of an engagement; false when the message is not there any more. */
export async function appendEngagement(tx: Transaction, engagement: Engagement): Promise<boolean> {
  const { accountId, mode, messageId, atMs } = engagement;
  const row = await tx.get<{ updated_at: number }>(
    `UPDATE message SET updated_at = CASE WHEN updated_at >= ? THEN updated_at + 1 ELSE ? END
     WHERE account_id = ? AND mode = ? AND id = ? RETURNING updated_at`,
    atMs,
    atMs,
    accountId,
    mode,
    messageId,
  );
  if (!row) return false;
  await appendEvents(tx, [{ ...engagement.event, accountId, mode, messageId, at: row.updated_at }]);
  return true;
}

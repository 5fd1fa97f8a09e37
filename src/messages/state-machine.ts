/**
 * The states of a message and the only code that writes them. Every change of state appends its event in the same transaction; a change
 * that the table does not allow is refused and changes nothing.
 *
 *   scheduled → queued → (sending: held by a worker, not stored) → delivered → bounced (late report) | complained
 *                  ↑        ├→ delayed → retried at its next attempt
 *                  │        └→ bounced
 *   suppressed (never sent)    scheduled | queued | delayed → cancelled | suppressed (before an attempt)
 *
 * The events of one message are at least a millisecond apart, in order: their times tell which came first.
 *
 * `sending` is not written to the row: a lease on the work row implies it, so that an attempt costs one transaction instead of two.
 */
import type { Mode } from '../base/mode.ts';
import { appendEvents, EVENT, type EventType, type NewEvent } from '../events/events.ts';
import type { Transaction } from '../storage/operation.ts';
import { rowset, takeNumbers } from '../storage/rows.ts';
import type { MessageStatus } from './message.ts';
import { type DueReport, enqueueReports } from './report-work.ts';

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

/** The states in which a message is in the queue. */
const WAITING: readonly MessageStatus[] = ['scheduled', 'queued', 'delayed'];

export interface Transition {
  accountId: string;
  mode: Mode;
  messageId: string;
  to: MessageStatus;
  /** Unix ms, by the clock of the mode; the event gets a later time if the message was last changed at or after it. */
  atMs: number;
  /** Number of attempts to record; undefined leaves it unchanged. */
  attempts?: number;
  nextAttemptAtMs?: number | null;
  /** The event of this change; null for a repeated delay. */
  event?: { id: string; type: EventType; detail: Record<string, unknown> } | null;
}

/** Applies the change and appends its event; returns false if the message's state does not allow it. */
export async function transition(tx: Transaction, change: Transition): Promise<boolean> {
  return (await transitionMany(tx, [change])).has(change.messageId);
}

/** For each state, the states that it can be reached from, as pairs in SQL. */
const ALLOWED = Object.entries(FROM)
  .flatMap(([to, from]) => from.map((one) => `'${one}>${to}'`))
  .join(', ');
const WAITING_LIST = WAITING.map((one) => `'${one}'`).join(', ');

/** The same for many messages, each at most once; returns the ids of those that were changed. */
export async function transitionMany(tx: Transaction, changes: readonly Transition[]): Promise<ReadonlySet<string>> {
  if (changes.length === 0) return new Set();
  const made = rowset(
    tx,
    'made',
    {
      accountId: 'text',
      mode: 'text',
      id: 'text',
      status: 'text',
      at: 'int',
      attempts: 'int?',
      nextAttemptAt: 'int?',
    },
    changes.map((change) => ({
      accountId: change.accountId,
      mode: change.mode,
      id: change.messageId,
      status: change.to,
      at: change.atMs,
      attempts: change.attempts ?? null,
      nextAttemptAt: change.nextAttemptAtMs ?? null,
    })),
  );
  // The lowest and the highest id tell the planner which partitions to read.
  const ids = changes.map((change) => change.messageId).sort();
  const events = changes.filter((change) => change.event);
  const [rows, [seqs]] = await Promise.all([
    tx.all<{ id: string; updated_at: number; dsn: string | null }>(
      `UPDATE message SET status = made.status,
         updated_at = CASE WHEN message.updated_at >= made.at THEN message.updated_at + 1 ELSE made.at END,
         attempts = coalesce(made.attempts, message.attempts), next_attempt_at = made.next_attempt_at,
         work_seq = CASE WHEN made.status IN (${WAITING_LIST}) THEN message.work_seq END
       FROM ${made.sql}
       WHERE message.account_id = made.account_id AND message.mode = made.mode AND message.id = made.id
         AND (message.status || '>' || made.status) IN (${ALLOWED}) AND message.id >= ? AND message.id <= ?
       RETURNING message.id, message.updated_at, message.dsn`,
      ...made.params,
      ids[0]!,
      ids.at(-1)!,
    ),
    takeNumbers(tx, [EVENT, events.length]),
  ]);
  const changed = new Map(rows.map((row) => [row.id, row]));
  const appended = events.flatMap(({ accountId, mode, messageId, event }): NewEvent[] => {
    const row = changed.get(messageId);
    return event && row ? [{ ...event, accountId, mode, messageId, at: row.updated_at }] : [];
  });
  await appendEvents(tx, appended, seqs);
  await enqueueReports(
    tx,
    appended.flatMap((event, index) => dueReport(event, seqs![index]!, changed.get(event.messageId)!.dsn)),
  );
  return new Set(changed.keys());
}

/** The sandbox sends no reports. */
function dueReport({ at: atMs, ...event }: NewEvent, eventSeq: number, dsn: string | null): DueReport[] {
  return dsn === null || event.mode === 'sandbox' ? [] : [{ ...event, eventSeq, atMs, dsn }];
}

/** An event that changes no state: an open or click, or a late report. */
interface TimelineEntry {
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Unix ms, by the clock of the mode; as for a transition, the event gets a later time than the previous one. */
  atMs: number;
  event: {
    id: string;
    type: EventType;
    detail: Record<string, unknown>;
  };
}

/** Appends an event alone; returns false if the message no longer exists. */
export async function appendToTimeline(tx: Transaction, entry: TimelineEntry): Promise<boolean> {
  const { accountId, mode, messageId, atMs } = entry;
  const row = await tx.get<{ updated_at: number; dsn: string | null }>(
    `UPDATE message SET updated_at = CASE WHEN updated_at >= ? THEN updated_at + 1 ELSE ? END
     WHERE account_id = ? AND mode = ? AND id = ? RETURNING updated_at, dsn`,
    atMs,
    atMs,
    accountId,
    mode,
    messageId,
  );
  if (!row) return false;
  const event = { ...entry.event, accountId, mode, messageId, at: row.updated_at };
  const [seqs] = await takeNumbers(tx, [EVENT, 1]);
  await appendEvents(tx, [event], seqs);
  await enqueueReports(tx, dueReport(event, seqs![0]!, row.dsn));
  return true;
}

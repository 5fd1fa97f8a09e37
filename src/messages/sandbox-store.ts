/**
 * Messages of the sandbox in the hands of whoever runs their attempts out of turn: when the account moves its clock, or plays an
 * outcome by hand. Their leases are taken elsewhere or here, and ended by settling, like any other.
 */

import { operation, type Transaction } from '../storage/operation.ts';
import { clockOffsetOf, finish, take, type Work } from '../work/work.ts';
import { isSuppressed } from './delivery-store.ts';
import { type JobRow, jobOf } from './job-row.ts';
import type { DeliveryJob, MessageStatus } from './message.ts';
import { type Transition, transition } from './state-machine.ts';

/** Without the content, which nothing in the sandbox sends. */
const COLUMNS = `m.status, m.recipient, m.created_at, m.expires_at, e.envelope_from, e.header_from, e.header_message_id,
   e.size_bytes, e.options, e.retain, e.source, NULL AS content, e.blob_key`;

function readRow(tx: Transaction, accountId: string, messageId: string) {
  return tx.get<JobRow>(
    `SELECT ${COLUMNS} FROM message m JOIN email e ON e.seq = m.email_seq
     WHERE m.account_id = ? AND m.mode = 'sandbox' AND m.id = ?`,
    accountId,
    messageId,
  );
}

/** The jobs of rows that the caller has leased; a row without a message is ended. */
export const sandboxJobsOperation = operation(
  'messages.sandboxJobs',
  'write',
  async (tx, { works, nowMs }: { works: Work[]; nowMs: number }): Promise<DeliveryJob[]> => {
    const jobs: DeliveryJob[] = [];
    for (const work of works) {
      const row = await readRow(tx, work.account_id, work.subject);
      if (!row) await finish(tx, work);
      else if (await isSuppressed(tx, work, { recipient: row.recipient, nowMs })) {
        jobs.push({ ...jobOf(work, row), suppressed: true });
      } else jobs.push(jobOf(work, row));
    }
    return jobs;
  },
);

export interface TakeOne {
  accountId: string;
  messageId: string;
  /** Unix ms, real time. */
  nowMs: number;
  leaseMs: number;
}

/** A message with its lease, or why there is none. */
export type TakenOne =
  | { found: 'job'; job: DeliveryJob; clockOffsetMs: number }
  | { found: 'held' }
  | { found: 'settled'; status: MessageStatus; clockOffsetMs: number }
  | { found: 'nothing' };

/** Leases one message of the sandbox, whenever it is due. */
export const takeSandboxMessageOperation = operation(
  'messages.takeSandboxMessage',
  'write',
  async (tx, { accountId, messageId, nowMs, leaseMs }: TakeOne): Promise<TakenOne> => {
    const row = await readRow(tx, accountId, messageId);
    if (!row) return { found: 'nothing' };
    const clockOffsetMs = await clockOffsetOf(tx, { accountId, mode: 'sandbox' });
    const work = await tx.get<Work & { leased: number }>(
      `SELECT w.seq, w.kind, w.account_id, w.mode, w.subject, w.ref, w.lane, w.fence, w.attempts, w.crashes, w.leased
       FROM message m JOIN work w ON w.seq = m.work_seq
       WHERE m.account_id = ? AND m.mode = 'sandbox' AND m.id = ?`,
      accountId,
      messageId,
    );
    if (!work) return { found: 'settled', status: row.status, clockOffsetMs };
    const fence = work.leased > 0 ? undefined : await take(tx, work, { nowMs, leaseMs });
    if (fence === undefined) return { found: 'held' };
    return { found: 'job', job: jobOf({ ...work, fence }, { ...row, ahead_ms: clockOffsetMs }), clockOffsetMs };
  },
);

export interface LateOutcome extends Omit<Transition, 'mode'> {
  /** What the inbox shows from now on. */
  sandboxOutcome: string;
}

/** What comes after a message was settled, such as a complaint; false when its state does not allow it. */
export const playLateOperation = operation(
  'messages.playLate',
  'write',
  async (tx, { sandboxOutcome, ...change }: LateOutcome): Promise<boolean> => {
    if (!(await transition(tx, { ...change, mode: 'sandbox' }))) return false;
    await tx.run(
      'UPDATE sandbox_item SET outcome = ? WHERE account_id = ? AND message_id = ?',
      sandboxOutcome,
      change.accountId,
      change.messageId,
    );
    return true;
  },
);

/**
 * Messages of the sandbox held by a call that runs their attempts out of turn: when the account moves its clock, or plays an
 * outcome by hand. Their leases are taken elsewhere or here, and ended by settling, like any other.
 */

import { type DeliveryJob, type MessageStatus, type Transition, transition } from '../messages/messages.ts';
import { recordOutcomes } from '../sandbox/sandbox.ts';
import { operation } from '../storage/operation.ts';
import { clockOffsetOf, take, type Work } from '../work/work.ts';
import { loadJobs } from './claim.ts';

/** The jobs of rows that the caller has leased. */
export const sandboxJobsOperation = operation(
  'delivery.sandboxJobs',
  'write',
  (tx, { works, nowMs }: { works: Work[]; nowMs: number }): Promise<DeliveryJob[]> => loadJobs(tx, works, nowMs),
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
  'delivery.takeSandboxMessage',
  'write',
  async (tx, { accountId, messageId, nowMs, leaseMs }: TakeOne): Promise<TakenOne> => {
    const row = await tx.get<{ status: MessageStatus; seq: number | null; fence: number; leased: number }>(
      `SELECT m.status, w.seq, w.fence, w.leased FROM message m LEFT JOIN work w ON w.seq = m.work_seq
       WHERE m.account_id = ? AND m.mode = 'sandbox' AND m.id = ?`,
      accountId,
      messageId,
    );
    if (!row) return { found: 'nothing' };
    const clockOffsetMs = await clockOffsetOf(tx, { accountId, mode: 'sandbox' });
    if (row.seq === null) return { found: 'settled', status: row.status, clockOffsetMs };
    const work = row.leased > 0 ? undefined : await take(tx, { seq: row.seq, fence: row.fence }, { nowMs, leaseMs });
    if (work === undefined) return { found: 'held' };
    // An outcome that is played by hand counts more than the list.
    const [loaded] = await loadJobs(tx, [work], nowMs);
    if (!loaded) return { found: 'nothing' };
    const { suppressed: _, ...job } = loaded;
    return { found: 'job', job, clockOffsetMs };
  },
);

export interface LateOutcome extends Omit<Transition, 'mode'> {
  /** What the inbox shows from now on. */
  sandboxOutcome: string;
}

/** What comes after a message was settled, such as a complaint; false when its state does not allow it. */
export const playLateOperation = operation(
  'delivery.playLate',
  'write',
  async (tx, { sandboxOutcome, ...change }: LateOutcome): Promise<boolean> => {
    if (!(await transition(tx, { ...change, mode: 'sandbox' }))) return false;
    const { accountId, messageId } = change;
    await recordOutcomes(tx, [{ accountId, messageId, outcome: sandboxOutcome }]);
    return true;
  },
);

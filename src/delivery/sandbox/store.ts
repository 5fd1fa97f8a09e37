/** Sandbox messages whose outcome is set manually. */

import { type MessageStatus, type Transition, transition } from '../../messages/messages.ts';
import { recordOutcomes } from '../../sandbox/sandbox.ts';
import { operation } from '../../storage/operation.ts';
import { clockOffsetSql } from '../../work/work.ts';

export interface SandboxMessage {
  status: MessageStatus;
  /** The lease of its work; null if it is settled. */
  seq: number | null;
  fence: number;
  clockOffsetMs: number;
}

/** Returns a sandbox message and its work; undefined if the account does not have this id. */
export const findSandboxMessageOperation = operation(
  'delivery.findSandboxMessage',
  'read',
  (tx, { accountId, messageId }: { accountId: string; messageId: string }) =>
    tx.get<SandboxMessage>(
      `SELECT m.status, w.seq, w.fence, ${clockOffsetSql('m')} AS "clockOffsetMs"
       FROM message m LEFT JOIN work w ON w.seq = m.work_seq
       WHERE m.account_id = ? AND m.mode = 'sandbox' AND m.id = ?`,
      accountId,
      messageId,
    ),
);

export interface LateOutcome extends Omit<Transition, 'mode'> {
  /** The outcome that the inbox shows from now on. */
  sandboxOutcome: string;
}

/** Records a result after a message was settled, such as a complaint; returns false if the state does not allow it. */
export const simulateLateOperation = operation(
  'delivery.simulateLate',
  'write',
  async (tx, { sandboxOutcome, ...change }: LateOutcome): Promise<boolean> => {
    if (!(await transition(tx, { ...change, mode: 'sandbox' }))) return false;
    const { accountId, messageId } = change;
    await recordOutcomes(tx, [{ accountId, messageId, outcome: sandboxOutcome }]);
    return true;
  },
);

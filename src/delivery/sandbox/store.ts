/** Messages of the sandbox of which an outcome is played by hand. */

import { type MessageStatus, type Transition, transition } from '../../messages/messages.ts';
import { recordOutcomes } from '../../sandbox/sandbox.ts';
import { operation } from '../../storage/operation.ts';
import { clockOffsetSql } from '../../work/work.ts';

export interface SandboxMessage {
  status: MessageStatus;
  /** The lease of its work; null when it was settled. */
  seq: number | null;
  fence: number;
  clockOffsetMs: number;
}

/** A message of the sandbox and its work; undefined where the account has none of this id. */
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

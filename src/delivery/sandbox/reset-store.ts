/**
 * The transactions that reset the clock of an account's sandbox to real time. Sandbox messages, events, webhook deliveries and statistics
 * carry times of this clock, so all of them are removed first.
 */
import { removeEmail } from '../../messages/messages.ts';
import type { MoveLease } from '../../sandbox/sandbox.ts';
import { operation, type Transaction } from '../../storage/operation.ts';

export interface ResetStep extends MoveLease {
  /** Maximum number of emails, and of rows of each table, to remove. */
  limit: number;
  /** Kinds of work of messages and of their webhooks. */
  kinds: readonly [delivery: string, webhook: string];
}

export interface ResetProgress {
  /** Messages removed by this step. */
  removed: number;
  /** Nothing is left, and the clock shows real time. */
  isDone: boolean;
}

/**
 * Removes a part of the sandbox's mail under the lease of the clock. The step that finds nothing left resets the clock and ends the lease,
 * in the same transaction. Undefined if the lease is lost. Blobs without references are removed by the housekeeping.
 */
export const resetStepOperation = operation(
  'sandbox.resetStep',
  'write',
  async (tx, step: ResetStep): Promise<ResetProgress | undefined> => {
    const { accountId, by, nowMs, leaseMs } = step;
    // Lock the row: a send accepted in the meantime makes its work due by the clock after this transaction. Its createdAt is the time that
    // it read before.
    const held = await tx.run(
      'UPDATE sandbox_clock SET moving_until = ? WHERE account_id = ? AND moved_by = ?',
      nowMs + leaseMs,
      accountId,
      by,
    );
    if (held === 0) return undefined;
    const removed = await removeMail(tx, step);
    const others = await removeOthers(tx, step);
    if (removed.emails > 0 || others > 0) return { removed: removed.messages, isDone: false };
    // A used submission is stored with its key, and would be returned to a repeated registration.
    await tx.run(
      `UPDATE attachment_submission SET idempotency_key = NULL
       WHERE account_id = ? AND mode = 'sandbox' AND idempotency_key IS NOT NULL AND used_at IS NOT NULL`,
      accountId,
    );
    await tx.run("UPDATE webhook SET failing_since = NULL WHERE account_id = ? AND mode = 'sandbox'", accountId);
    await tx.run(
      'UPDATE sandbox_clock SET ahead_ms = 0, moved_by = NULL, moving_until = 0 WHERE account_id = ?',
      accountId,
    );
    return { removed: 0, isDone: true };
  },
);

async function removeMail(tx: Transaction, step: ResetStep): Promise<{ emails: number; messages: number }> {
  const rows = await tx.all<{ id: string; email_seq: number }>(
    "SELECT id, email_seq FROM message WHERE account_id = ? AND mode = 'sandbox' ORDER BY id LIMIT ?",
    step.accountId,
    step.limit,
  );
  const emails = new Set(rows.map((row) => row.email_seq));
  let messages = 0;
  for (const seq of emails) messages += await removeEmail(tx, seq);
  return { emails: emails.size, messages };
}

async function removeOthers(tx: Transaction, { accountId, limit, kinds }: ResetStep): Promise<number> {
  const received = await tx.all<{ id: string }>(
    "SELECT id FROM inbound_message WHERE account_id = ? AND mode = 'sandbox' ORDER BY id LIMIT ?",
    accountId,
    limit,
  );
  for (const { id } of received) {
    await tx.run('DELETE FROM event WHERE message_id = ?', id);
    await tx.run('DELETE FROM inbound_message WHERE id = ?', id);
    await tx.run('DELETE FROM inbound_mail WHERE id = ?', id);
  }
  let removed = received.length;
  removed += await tx.run(
    `DELETE FROM work WHERE seq IN (SELECT seq FROM work
       WHERE account_id = ? AND mode = 'sandbox' AND kind IN (?, ?) ORDER BY held DESC, due LIMIT ?)`,
    accountId,
    ...kinds,
    limit,
  );
  removed += await tx.run(
    `DELETE FROM webhook_delivery WHERE (webhook_id, id) IN (SELECT d.webhook_id, d.id FROM webhook_delivery d
       JOIN webhook w ON w.id = d.webhook_id WHERE w.account_id = ? AND w.mode = 'sandbox' LIMIT ?)`,
    accountId,
    limit,
  );
  removed += await tx.run(
    'DELETE FROM sandbox_item WHERE (account_id, message_id) IN (SELECT account_id, message_id FROM sandbox_item WHERE account_id = ? LIMIT ?)',
    accountId,
    limit,
  );
  // A stored response names messages that no longer exist.
  removed += await tx.run(
    `DELETE FROM idempotency WHERE account_id = ? AND mode = 'sandbox' AND (endpoint, key) IN
       (SELECT endpoint, key FROM idempotency WHERE account_id = ? AND mode = 'sandbox' LIMIT ?)`,
    accountId,
    accountId,
    limit,
  );
  removed += await tx.run("DELETE FROM statistics WHERE account_id = ? AND mode = 'sandbox'", accountId);
  return removed;
}

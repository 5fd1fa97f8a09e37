/**
 * What settles and claims on both databases share: the words by which a bounce goes onto the suppression list, and live mail of
 * suspended accounts, as a claim comes upon it: it rests in the queue, untried, until the account may send again.
 */

import type { Transaction } from '../storage/operation.ts';
import * as queue from '../work/work.ts';

/**
 * Live mail of an account that is suspended is given back untried until this long after it was claimed, and up to as much
 * again, so that not all of it comes back at one moment. Who lifts the suspension makes it due.
 */
const SUSPENDED_PAUSE_MS = 120_000;

/** Gives rows of suspended accounts back, at the latest until the first of them expires. */
export async function giveBackSuspended(
  tx: Transaction,
  rows: readonly { work: queue.Work; expiresAt: number }[],
  nowMs: number,
): Promise<void> {
  if (rows.length === 0) return;
  const dueMs = nowMs + SUSPENDED_PAUSE_MS + (rows[0]!.work.seq % 120) * 1000;
  await queue.release(
    tx,
    rows.map(({ work }) => ({ seq: work.seq, fence: work.fence })),
    Math.min(dueMs, ...rows.map((row) => row.expiresAt)),
  );
}

/**
 * An entry without an end stays as it is. Of one with an end the later end counts; it keeps its reason where that is the
 * recipient's own wish and still in force.
 */
export const STRONGER_BOUNCE = `ON CONFLICT (account_id, mode, email) DO UPDATE SET
  reason = CASE WHEN suppression.expires_at > excluded.created_at AND suppression.reason IN ('complaint', 'unsubscribe')
    THEN suppression.reason ELSE excluded.reason END,
  source_message_id = CASE WHEN suppression.expires_at > excluded.created_at
    AND suppression.reason IN ('complaint', 'unsubscribe') THEN suppression.source_message_id
    ELSE excluded.source_message_id END,
  expires_at = CASE WHEN excluded.expires_at < suppression.expires_at THEN suppression.expires_at
    ELSE excluded.expires_at END, created_at = excluded.created_at
  WHERE suppression.expires_at IS NOT NULL`;

/**
 * What settles and claims on both databases share: the entries of the suppression list that bounces make, and live mail of
 * suspended accounts, as a claim comes upon it: it rests in the queue, untried, until the account may send again.
 */

import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import type { SuppressionEntry } from '../suppressions/suppressions.ts';
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

interface MaySuppress {
  accountId: string;
  mode: Mode;
  messageId: string;
  atMs: number;
  suppress: { email: string; untilMs: number | null } | null;
}

/** What bounces put on the suppression lists. */
export function bouncedAddresses(settlements: readonly MaySuppress[]): SuppressionEntry[] {
  return settlements.flatMap(({ accountId, mode, messageId, atMs, suppress }) => {
    if (!suppress) return [];
    const entry = { reason: 'bounce' as const, sourceMessageId: messageId, createdAt: atMs };
    return [{ accountId, mode, email: suppress.email, expiresAt: suppress.untilMs, ...entry }];
  });
}

/**
 * Removes what is past its time: content, whole weeks of a shared database, messages with their events, idempotency records,
 * the sandbox's old inbox, the log of webhooks. Each function answers how much it removed.
 */
import { type ExpiredRecord, removeExpiredOperation } from '../idempotency/idempotency.ts';
import {
  dropOldestWeekOperation,
  makePartitionsOperation,
  RETAIN_MS,
  type Retain,
  removeContentOperation,
  removeEmailsOperation,
} from '../messages/messages.ts';
import { removeSandboxItemsOperation } from '../sandbox/sandbox.ts';
import { removeWebhookDeliveriesOperation } from '../webhooks/webhooks.ts';
import { BATCH, type Round, removeInBatches, removeUntilShort } from './round.ts';

const DAY_MS = 86_400_000;
const SANDBOX_KEEP_MS = 7 * DAY_MS;
const SANDBOX_ITEMS = 1_000;

/** `contentMs` is for how long it is kept at most: what was asked for and is longer goes as much earlier than it says. */
export function removeContent(round: Round, nowMs: number, contentMs: number): Promise<number> {
  const beforeOf = (retain: Retain): number => nowMs + Math.max(0, RETAIN_MS[retain] - contentMs);
  const batch = { beforeMs: beforeOf('30d'), beforeOf7DaysMs: beforeOf('7d'), limit: BATCH };
  return removeUntilShort(round, () => round.database.execute(removeContentOperation, batch));
}

/** Partitions of a shared database: made ahead, and dropped once all of a week is past its time. */
export async function dropWeeks({ database, clock, log, isStopping }: Round, beforeMs: number): Promise<number> {
  if (database.dialect !== 'postgres') return 0;
  let dropped = 0;
  try {
    await database.execute(makePartitionsOperation, { nowMs: clock.now() });
    while (!isStopping() && (await database.execute(dropOldestWeekOperation, { beforeMs }))) dropped += 1;
  } catch (error) {
    log.warn({ error: (error as Error).message }, 'partitions are left to the next round');
  }
  return dropped;
}

export function removeEmails(round: Round, beforeMs: number): Promise<number> {
  return removeInBatches(round, 0, async (afterSeq) => {
    const { lastSeq, ...removed } = await round.database.execute(removeEmailsOperation, {
      ...{ beforeMs, afterSeq },
      limit: BATCH,
    });
    return { ...removed, next: lastSeq ?? undefined };
  });
}

export function removeIdempotency(round: Round, beforeMs: number): Promise<number> {
  return removeInBatches<ExpiredRecord | null>(round, null, async (after) => {
    const batch = { beforeMs, limit: BATCH, after };
    const { count, next } = await round.database.execute(removeExpiredOperation, batch);
    return { count, next: next ?? undefined };
  });
}

export function removeSandboxItems(round: Round, nowMs: number): Promise<number> {
  const batch = { beforeMs: nowMs - SANDBOX_KEEP_MS, limit: BATCH, perAccount: SANDBOX_ITEMS };
  return removeUntilShort(round, async () => ({
    count: await round.database.execute(removeSandboxItemsOperation, batch),
  }));
}

export function removeWebhookDeliveries(round: Round, beforeMs: number): Promise<number> {
  const batch = { beforeMs, limit: BATCH };
  return removeUntilShort(round, async () => ({
    count: await round.database.execute(removeWebhookDeliveriesOperation, batch),
  }));
}

/**
 * Deletes expired data: content, weekly partitions of a shared database, messages with their events, idempotency records, the old sandbox
 * inbox, and webhook logs. Each function returns how many rows it deleted.
 *
 * Deletes uploads: open submissions with their files 24 hours after their URLs expired, and files of sent submissions when none of their
 * emails has content anymore. A submission is overdue only if two checks an hour apart by the monotonic clock of this process agree, so a
 * jump of the wall clock deletes nothing.
 */

import { removeAgentRequestsOperation } from '../accounts/accounts.ts';
import {
  KEEP_UNSENT_MS,
  overdueBatchesOperation,
  removeOverdueOperation,
  removeUsedFilesOperation,
} from '../attachments/attachments.ts';
import { removeAuditOperation } from '../audit/audit.ts';
import type { Owner } from '../base/mode.ts';
import { type ExpiredRecord, removeExpiredOperation } from '../idempotency/idempotency.ts';
import { removeInboundOperation } from '../inbound/inbound.ts';
import { forgetInboundOperation, removeInboundMessagesOperation } from '../inbound-routes/inbound-routes.ts';
import {
  dropOldestWeekOperation,
  makePartitions,
  RETAIN_MS,
  type Retain,
  removeContentOperation,
  removeEmailsOperation,
  removeSharesOperation,
} from '../messages/messages.ts';
import { KEPT_DAYS, removeRequestsOperation } from '../request-log/request-log.ts';
import { removeSandboxItemsOperation } from '../sandbox/sandbox.ts';
import { removeStatisticsOperation, STATISTICS_DAYS } from '../statistics/statistics.ts';
import { removeTemplateSharesOperation } from '../templates/templates.ts';
import { dayOf, removeTlsReportsOperation } from '../tls-reports/tls-reports.ts';
import { IDLE_MS, removeOldOperation } from '../users/users.ts';
import { removeWebhookDeliveriesOperation } from '../webhooks/webhooks.ts';
import { BATCH, createTwoPassCheck, type Round, removeInBatches, removeUntilShort } from './round.ts';

const DAY_MS = 86_400_000;
const SANDBOX_KEEP_MS = 7 * DAY_MS;
/** One day more than the database requires, because its clock may be behind. */
const AUDIT_KEEP_MS = 401 * DAY_MS;
const SANDBOX_ITEMS = 1_000;

/** `contentMs` is the maximum time to keep content: longer requested times are shortened. */
export function removeContent(round: Round, nowMs: number, contentMs: number): Promise<number> {
  const beforeOf = (retain: Retain): number => nowMs + Math.max(0, RETAIN_MS[retain] - contentMs);
  const batch = { beforeMs: beforeOf('30d'), beforeOf7DaysMs: beforeOf('7d'), limit: BATCH };
  return removeUntilShort(round, () => round.database.execute(removeContentOperation, batch));
}

/** The content of inbound mail expires with its bytes, the remaining record with the events. Bytes are not kept without their record. */
export async function removeInboundMessages(
  round: Round,
  { contentBeforeMs, beforeMs }: { contentBeforeMs: number; beforeMs: number },
): Promise<number> {
  const { database } = round;
  await removeUntilShort(round, async () => ({
    count: await database.execute(forgetInboundOperation, { beforeMs: contentBeforeMs, limit: BATCH }),
  }));
  return removeUntilShort(round, () => database.execute(removeInboundMessagesOperation, { beforeMs, limit: BATCH }));
}

/** Partitions of a shared database: created in advance, and dropped once an entire week has expired. */
export async function dropWeeks({ database, clock, log, isStopping }: Round, beforeMs: number): Promise<number> {
  let dropped = 0;
  try {
    await makePartitions(database, { nowMs: clock.now() });
    while (!isStopping() && (await database.execute(dropOldestWeekOperation, { beforeMs }))) dropped += 1;
  } catch (error) {
    log.warn({ error: (error as Error).message }, 'partition removal postponed to the next round');
  }
  return dropped;
}

export function removeEmails(round: Round, beforeMs: number): Promise<number> {
  return removeInBatches(round, 0, async (afterSeq) => {
    const { lastSeq, ...removed } = await round.database.execute(removeEmailsOperation, {
      beforeMs,
      afterSeq,
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

/** Inbound mail that no work row is waiting for. */
export function removeInbound(round: Round, beforeMs: number): Promise<number> {
  return removeUntilShort(round, () => round.database.execute(removeInboundOperation, { beforeMs, limit: BATCH }));
}

/** The database itself refuses to delete younger rows. */
export function removeAudit(round: Round, nowMs: number): Promise<number> {
  const batch = { beforeMs: nowMs - AUDIT_KEEP_MS, limit: BATCH };
  return removeUntilShort(round, async () => ({ count: await round.database.execute(removeAuditOperation, batch) }));
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

/** The request log. `keepMs` is how long events are kept: requests are not kept longer. */
export function removeRequests(round: Round, nowMs: number, keepMs: number): Promise<number> {
  const beforeMs = nowMs - Math.min(KEPT_DAYS * DAY_MS, keepMs);
  return removeInBatches<Owner | null>(round, null, (after) =>
    round.database.execute(removeRequestsOperation, { beforeMs, limit: BATCH, after }),
  );
}

/** Keeps the day in which the retention period starts complete. */
export function removeStatistics(round: Round, nowMs: number): Promise<number> {
  const batch = { beforeMs: nowMs - (STATISTICS_DAYS + 1) * DAY_MS, limit: BATCH };
  return removeUntilShort(round, async () => ({
    count: await round.database.execute(removeStatisticsOperation, batch),
  }));
}

const TLS_REPORTS_KEEP_MS = 8 * DAY_MS;

/** Counters of TLS sessions, and the record of sent reports. */
export function removeTlsReports(round: Round, nowMs: number): Promise<number> {
  const batch = { beforeDay: dayOf(nowMs - TLS_REPORTS_KEEP_MS), limit: BATCH };
  return removeUntilShort(round, async () => ({
    count: await round.database.execute(removeTlsReportsOperation, batch),
  }));
}

const KEEP_MS = 86_400_000;

/** Deletes submissions that were not sent in time; returns how many. */
export function createOverdueRemoval(passesApartMs: number): (round: Round, nowMs: number) => Promise<number> {
  const startPass = createTwoPassCheck(passesApartMs);
  return async (round, nowMs) => {
    const { database } = round;
    const expiredBeforeMs = nowMs - KEEP_UNSENT_MS;
    const pass = startPass();
    const removed = await removeInBatches(round, '', async (afterId) => {
      const found = await database.execute(overdueBatchesOperation, { expiredBeforeMs, afterId, limit: BATCH });
      const ids = pass.confirmed(found);
      const gone = await database.execute(removeOverdueOperation, { ids, expiredBeforeMs });
      return { ...gone, next: found.length < BATCH ? undefined : found.at(-1) };
    });
    pass.end();
    return removed;
  };
}

/** Deletes the files of sent submissions; returns how many submissions. */
export function removeUsedFiles(round: Round, nowMs: number): Promise<number> {
  return removeInBatches(round, '', async (afterId) => {
    const batch = { afterId, limit: BATCH, rowsFromMs: nowMs - KEEP_MS };
    const { lastId, ...gone } = await round.database.execute(removeUsedFilesOperation, batch);
    return { ...gone, next: lastId ?? undefined };
  });
}

/** Ended sessions, unused links, expired login limits. */
export function removeSignIns(round: Round, nowMs: number): Promise<number> {
  const batch = { nowMs, idleSinceMs: nowMs - IDLE_MS, limit: BATCH };
  return removeUntilShort(round, async () => ({ count: await round.database.execute(removeOldOperation, batch) }));
}

const AGENT_REQUESTS_KEEP_MS = 30 * DAY_MS;

/** Requests of agents; the audit log keeps the decisions. */
export function removeAgentRequests(round: Round, nowMs: number): Promise<number> {
  const batch = { beforeMs: nowMs - AGENT_REQUESTS_KEEP_MS, nowMs, limit: BATCH };
  return removeUntilShort(round, async () => ({
    count: await round.database.execute(removeAgentRequestsOperation, batch),
  }));
}

/** Links to messages and templates. */
export async function removeShares(round: Round, nowMs: number): Promise<number> {
  let removed = 0;
  for (const operation of [removeSharesOperation, removeTemplateSharesOperation]) {
    removed += await removeUntilShort(round, async () => ({
      count: await round.database.execute(operation, { nowMs, limit: BATCH }),
    }));
  }
  return removed;
}

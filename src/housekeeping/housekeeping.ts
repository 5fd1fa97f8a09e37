/**
 * Deletes expired data: content, uploads, messages and events, idempotency records, the request log, inbound mail, the old sandbox inbox,
 * webhook logs, links to messages, and blobs that no row names. Runs at the start and every hour.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import { forgetSegmentsOperation, noteSegmentOperation } from '../events/events.ts';
import { PARTITION_MS } from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import {
  createOverdueRemoval,
  dropWeeks,
  removeAgentRequests,
  removeAudit,
  removeContent,
  removeEmails,
  removeIdempotency,
  removeInbound,
  removeInboundMessages,
  removeRequests,
  removeSandboxItems,
  removeShares,
  removeSignIns,
  removeStatistics,
  removeTlsReports,
  removeUsedFiles,
  removeWebhookDeliveries,
} from './retention.ts';
import { createOrphanSweep, pause, type Round } from './round.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export interface HousekeepingDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  /** Returns which of these blobs other tables refer to, such as those of uploads and inbound messages. */
  alsoReferenced?: (keys: string[]) => Promise<string[]>;
  intervalMs?: number;
  /** Maximum time to keep content, regardless of the requested time. */
  contentDays?: number;
  /** How long messages, their events, and webhook logs are kept. */
  eventDays?: number;
  /** How long a blob must be unnamed between two checks; monotonic. */
  orphanMs?: number;
}

export function startHousekeeping(deps: HousekeepingDeps): Rounds {
  const { database, blobs, clock, log, alsoReferenced, orphanMs = HOUR_MS } = deps;
  const parts: RoundParts = {
    keepMs: (deps.eventDays ?? 90) * DAY_MS,
    contentMs: (deps.contentDays ?? 30) * DAY_MS,
    removeOverdue: createOverdueRemoval(orphanMs),
    sweepOrphans: createOrphanSweep({ passesApartMs: orphanMs, alsoReferenced }),
  };
  const rounds = startRounds({
    name: 'housekeeping',
    everyMs: deps.intervalMs ?? HOUR_MS,
    log,
    round: (isStopping) => createRound({ database, blobs, clock, log, isStopping }, parts)(),
  });
  void rounds.run();
  return rounds;
}

interface RoundParts {
  keepMs: number;
  contentMs: number;
  removeOverdue: ReturnType<typeof createOverdueRemoval>;
  sweepOrphans: ReturnType<typeof createOrphanSweep>;
}

function createRound(round: Round, parts: RoundParts): () => Promise<void> {
  return async () => {
    const nowMs = round.clock.now();
    const beforeMs = nowMs - parts.keepMs;
    const removed = {
      contents: await removeContent(round, nowMs, parts.contentMs),
      weeks: await dropWeeks(round, beforeMs),
      // Rows of a week that could not be dropped as a partition are deleted a week later.
      emails: await removeEmails(round, beforeMs - (round.database.dialect === 'postgres' ? PARTITION_MS : 0)),
      inboundMessages: await removeInboundMessages(round, { contentBeforeMs: nowMs - parts.contentMs, beforeMs }),
      submissions: await parts.removeOverdue(round, nowMs),
      usedFiles: await removeUsedFiles(round, nowMs),
      idempotencyRecords: await removeIdempotency(round, nowMs),
      requests: await removeRequests(round, nowMs, parts.keepMs),
      inboundMails: await removeInbound(round, nowMs - parts.contentMs),
      sandboxItems: await removeSandboxItems(round, nowMs),
      webhookDeliveries: await removeWebhookDeliveries(round, beforeMs),
      statistics: await removeStatistics(round, nowMs),
      tlsReports: await removeTlsReports(round, nowMs),
      auditEntries: await removeAudit(round, nowMs),
      signIns: await removeSignIns(round, nowMs),
      agentRequests: await removeAgentRequests(round, nowMs),
      shares: await removeShares(round, nowMs),
      orphans: await parts.sweepOrphans(round),
      unfinishedBlobs: await round.blobs.removeUnfinished(),
    };
    await noteSegments(round);
    if (Object.values(removed).some((count) => count > 0)) round.log.info(removed, 'expired data removed');
  };
}

/** Adds time segments to the log of events, for searches by time. */
async function noteSegments({ database, clock, isStopping }: Round): Promise<void> {
  await database.execute(forgetSegmentsOperation, null);
  while (!isStopping() && (await database.execute(noteSegmentOperation, { nowMs: clock.now() }))) await pause();
}

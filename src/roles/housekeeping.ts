/**
 * Removes what is kept no longer: content past its time, uploads, messages and events past theirs, idempotency records,
 * the sandbox's old inbox, the log of webhooks, and blobs that no row names. Runs at the start and every hour, in small batches
 * with a pause between them, so that sending never waits for it.
 *
 * A blob is an orphan only if no row named it twice, an hour apart by the monotonic clock of this process, and it is a day
 * old by the clock of the store: an upload or a mail that any node is accepting has its row within seconds, and no jump of
 * a wall clock makes both look true. Right before it is removed it is asked for once more, where rows are written.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { forgetStretchesOperation, noteStretchOperation } from '../events/events.ts';
import {
  dropOldestWeekOperation,
  type IdempotencyPlace,
  makePartitionsOperation,
  namedBlobsOperation,
  PARTITION_MS,
  RETAIN_MS,
  type Removed,
  type Retain,
  removeContentOperation,
  removeEmailsOperation,
  removeIdempotencyOperation,
  removeSandboxItemsOperation,
  removeWebhookDeliveriesOperation,
  stillNamedBlobsOperation,
} from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import type { Operation } from '../storage/operation.ts';
import { keepUploads } from './upload-keeping.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SANDBOX_KEEP_MS = 7 * DAY_MS;
const SANDBOX_ITEMS = 1_000;
const BATCH = 200;
const PAUSE_MS = 20;
/** Blobs that are removed at the same time: a store over the network takes its time for each. */
const REMOVERS = 8;

export interface HousekeepingDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  /** Which of these blobs are named by rows of other folders (uploads). */
  alsoNamed?: (keys: string[]) => Promise<string[]>;
  intervalMs?: number;
  /** For how long content is kept at most, whatever was asked for. */
  contentDays?: number;
  /** For how long messages, their events and the log of webhooks are kept. */
  eventDays?: number;
  /** How long a blob must stay unnamed between two looks; monotonic. */
  orphanMs?: number;
}

export interface Housekeeping extends Running {
  /** One round now; rounds do not overlap. */
  run(): Promise<void>;
}

export function startHousekeeping(deps: HousekeepingDeps): Housekeeping {
  const { database, blobs, clock, log } = deps;
  const keepMs = (deps.eventDays ?? 90) * DAY_MS;
  const contentMs = (deps.contentDays ?? 30) * DAY_MS;
  /** Blobs that no row named, with the monotonic ms of the first look. */
  let unnamed = new Map<string, number>();
  let stopping = false;
  let running: Promise<void> | undefined;

  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

  /** What the storage does not remove now is named by nothing any more, and goes as an orphan later. */
  const removeBlobs = async (keys: string[]): Promise<void> => {
    const left = [...keys];
    let failed: string | undefined;
    const remover = async (): Promise<void> => {
      for (let key = left.pop(); key !== undefined && failed === undefined && !stopping; key = left.pop()) {
        await blobs.remove(key).catch((error: Error) => {
          failed = error.message;
        });
      }
    };
    await Promise.all(Array.from({ length: REMOVERS }, remover));
    if (failed !== undefined) log.warn({ error: failed }, 'blobs that are named no longer stay until they are swept');
  };

  const uploads = keepUploads({
    database,
    removeBlobs,
    pause,
    stopping: () => stopping,
    looksApartMs: deps.orphanMs ?? HOUR_MS,
  });

  /** Calls a removal until a batch comes back with less than it could hold. */
  const drain = async (remove: () => Promise<number>): Promise<number> => {
    let total = 0;
    while (!stopping) {
      const count = await remove();
      total += count;
      if (count < BATCH) break;
      await pause();
    }
    return total;
  };

  const removeContent = (nowMs: number): Promise<number> =>
    drain(async () => {
      // What is kept for less than was asked for goes as much earlier than it says.
      const beforeOf = (retain: Retain): number => nowMs + Math.max(0, RETAIN_MS[retain] - contentMs);
      const batch = { beforeMs: beforeOf('30d'), beforeOf7DaysMs: beforeOf('7d'), limit: BATCH };
      const removed = await database.execute(removeContentOperation, batch);
      await removeBlobs(removed.blobKeys);
      return removed.count;
    });

  /** Partitions of a shared database: made ahead, and dropped once all of a week is past its time. */
  const dropWeeks = async (beforeMs: number): Promise<number> => {
    if (database.dialect !== 'postgres') return 0;
    let dropped = 0;
    try {
      await database.execute(makePartitionsOperation, { nowMs: clock.now() });
      while (!stopping && (await database.execute(dropOldestWeekOperation, { beforeMs }))) dropped += 1;
    } catch (error) {
      log.warn({ error: (error as Error).message }, 'partitions are left to the next round');
    }
    return dropped;
  };

  const removeEmails = async (beforeMs: number): Promise<number> => {
    let total = 0;
    for (let afterSeq: number | null = 0; afterSeq !== null && !stopping; ) {
      const removed: Removed & { lastSeq: number | null } = await database.execute(removeEmailsOperation, {
        beforeMs,
        limit: BATCH,
        afterSeq,
      });
      await removeBlobs(removed.blobKeys);
      total += removed.count;
      afterSeq = removed.lastSeq;
      await pause();
    }
    return total;
  };

  const removeIdempotency = async (beforeMs: number): Promise<number> => {
    let total = 0;
    for (let after: IdempotencyPlace | null = null; !stopping; await pause()) {
      const removed: { count: number; next: IdempotencyPlace | null } = await database.execute(
        removeIdempotencyOperation,
        { beforeMs, limit: BATCH, after },
      );
      total += removed.count;
      after = removed.next;
      if (after === null) break;
    }
    return total;
  };

  const named = async (op: Operation<string[], string[]>, keys: string[]): Promise<Set<string>> =>
    new Set([...(await database.execute(op, keys)), ...((await deps.alsoNamed?.(keys)) ?? [])]);

  const sweepChunk = async (keys: string[], seen: Map<string, number>): Promise<number> => {
    const found = await named(namedBlobsOperation, keys);
    const now = performance.now();
    const twice: string[] = [];
    for (const key of keys) {
      if (found.has(key)) continue;
      const since = unnamed.get(key);
      if (since !== undefined && now - since >= (deps.orphanMs ?? HOUR_MS)) twice.push(key);
      else seen.set(key, since ?? now);
    }
    if (twice.length === 0) return 0;
    const missed = await named(stillNamedBlobsOperation, twice);
    if (missed.size > 0) log.error({ blobKeys: [...missed] }, 'blobs that are named looked like orphans; they stay');
    const orphans = twice.filter((key) => !missed.has(key));
    let removed = 0;
    for (const key of orphans) {
      if (stopping) break;
      await blobs.remove(key);
      removed += 1;
    }
    return removed;
  };

  const sweepOrphans = async (): Promise<number> => {
    const seen = new Map<string, number>();
    let removed = 0;
    let chunk: string[] = [];
    const beforeMs = (await blobs.storeNowMs()) - DAY_MS;
    for await (const { key, writtenAtMs } of blobs.list()) {
      if (stopping) return removed;
      if (writtenAtMs > beforeMs) continue;
      chunk.push(key);
      if (chunk.length < BATCH) continue;
      removed += await sweepChunk(chunk, seen);
      chunk = [];
      await pause();
    }
    if (chunk.length > 0) removed += await sweepChunk(chunk, seen);
    unnamed = seen;
    return removed;
  };

  /** The log of events is made easy to search by time as far as it goes by now. */
  const noteStretches = async (): Promise<void> => {
    await database.execute(forgetStretchesOperation, null);
    while (!stopping && (await database.execute(noteStretchOperation, { nowMs: clock.now() }))) await pause();
  };

  const round = async (): Promise<void> => {
    const nowMs = clock.now();
    const batch = { beforeMs: nowMs - keepMs, limit: BATCH };
    const sandbox = { beforeMs: nowMs - SANDBOX_KEEP_MS, limit: BATCH, perAccount: SANDBOX_ITEMS };
    const removed = {
      contents: await removeContent(nowMs),
      weeks: await dropWeeks(nowMs - keepMs),
      // What of a week that was not dropped whole is left a week later goes row by row.
      emails: await removeEmails(nowMs - keepMs - (database.dialect === 'postgres' ? PARTITION_MS : 0)),
      submissions: await uploads.removeOverdue(nowMs),
      usedFiles: await uploads.removeUsedFiles(nowMs),
      idempotencyRecords: await removeIdempotency(nowMs),
      sandboxItems: await drain(() => database.execute(removeSandboxItemsOperation, sandbox)),
      webhookDeliveries: await drain(() => database.execute(removeWebhookDeliveriesOperation, batch)),
      orphans: await sweepOrphans(),
      unfinishedBlobs: await blobs.removeUnfinished(),
    };
    await noteStretches();
    if (Object.values(removed).some((count) => count > 0)) log.info(removed, 'removed what is kept no longer');
  };

  const run = (): Promise<void> => {
    running ??= round()
      .catch((error: Error) => {
        const level = error instanceof Unavailable ? 'warn' : 'error';
        log[level]({ error: error.message }, 'housekeeping was interrupted; it goes on at its next round');
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };

  const timer = setInterval(() => void run(), deps.intervalMs ?? HOUR_MS);
  void run();
  return {
    run,
    stop: async () => {
      stopping = true;
      clearInterval(timer);
      await running;
    },
  };
}

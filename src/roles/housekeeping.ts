/**
 * Removes what is kept no longer: content past its time, messages and events older than 90 days, idempotency records, the
 * sandbox's old inbox, the log of webhooks, and blobs that no row names. Runs at the start and every hour, in small batches
 * with a pause between them, so that sending never waits for it.
 *
 * A blob is an orphan only if no row named it twice, an hour apart by the monotonic clock, and its file is a day old: an
 * upload or a mail that is being accepted has its row within seconds, and no jump of the wall clock makes both look true.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import {
  namedBlobsOperation,
  type Removed,
  type RetentionBatch,
  removeContentOperation,
  removeEmailsOperation,
  removeIdempotencyOperation,
  removeSandboxItemsOperation,
  removeWebhookDeliveriesOperation,
} from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs.ts';
import type { Database } from '../storage/database.ts';
import type { Operation } from '../storage/operation.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const KEEP_MS = 90 * DAY_MS;
const SANDBOX_KEEP_MS = 7 * DAY_MS;
const SANDBOX_ITEMS = 1_000;
const BATCH = 200;
const PAUSE_MS = 20;

export interface HousekeepingDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  /** Which of these blobs are named by rows of other folders (uploads). */
  alsoNamed?: (keys: string[]) => Promise<string[]>;
  intervalMs?: number;
  /** How long a blob must stay unnamed between two looks; monotonic. */
  orphanMs?: number;
}

export interface Housekeeping extends Running {
  /** One round now; rounds do not overlap. */
  run(): Promise<void>;
}

export function startHousekeeping(deps: HousekeepingDeps): Housekeeping {
  const { database, blobs, clock, log } = deps;
  /** Blobs that no row named, with the monotonic ms of the first look. */
  let unnamed = new Map<string, number>();
  let stopping = false;
  let running: Promise<void> | undefined;

  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

  const removeBlobs = async (keys: string[]): Promise<void> => {
    for (const key of keys) await blobs.remove(key);
  };

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

  const withBlobs = (op: Operation<RetentionBatch, Removed>, beforeMs: number): Promise<number> =>
    drain(async () => {
      const removed = await database.execute(op, { beforeMs, limit: BATCH });
      await removeBlobs(removed.blobKeys);
      return removed.count;
    });

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

  const sweepChunk = async (keys: string[], seen: Map<string, number>): Promise<number> => {
    const named = new Set(await database.execute(namedBlobsOperation, keys));
    for (const key of (await deps.alsoNamed?.(keys)) ?? []) named.add(key);
    const now = performance.now();
    let removed = 0;
    for (const key of keys) {
      if (named.has(key)) continue;
      const since = unnamed.get(key) ?? now;
      if (now - since < (deps.orphanMs ?? HOUR_MS) || !unnamed.has(key)) {
        seen.set(key, since);
        continue;
      }
      await blobs.remove(key);
      removed += 1;
    }
    return removed;
  };

  const sweepOrphans = async (): Promise<number> => {
    const seen = new Map<string, number>();
    let removed = 0;
    let chunk: string[] = [];
    for await (const { key, writtenAtMs } of blobs.list()) {
      if (stopping) return removed;
      if (writtenAtMs > clock.now() - DAY_MS) continue;
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

  const round = async (): Promise<void> => {
    const nowMs = clock.now();
    const batch = { beforeMs: nowMs - KEEP_MS, limit: BATCH };
    const sandbox = { beforeMs: nowMs - SANDBOX_KEEP_MS, limit: BATCH, perAccount: SANDBOX_ITEMS };
    const removed = {
      contents: await withBlobs(removeContentOperation, nowMs),
      emails: await removeEmails(nowMs - KEEP_MS),
      idempotencyRecords: await drain(() =>
        database.execute(removeIdempotencyOperation, { beforeMs: nowMs, limit: BATCH }),
      ),
      sandboxItems: await drain(() => database.execute(removeSandboxItemsOperation, sandbox)),
      webhookDeliveries: await drain(() => database.execute(removeWebhookDeliveriesOperation, batch)),
      orphans: await sweepOrphans(),
    };
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

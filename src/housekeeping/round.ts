/**
 * What every part of a round of housekeeping goes by: it removes in small batches with a pause between them, so that sending
 * never waits for it, and ends soon when the service stops.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';

export const BATCH = 200;
const PAUSE_MS = 20;
/** Blobs that are removed at the same time: a store over the network takes its time for each. */
const AT_ONCE = 8;

export interface Round {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  isStopping(): boolean;
}

export const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

/** What one batch removed, and where the next one begins; undefined after the last. */
export interface Batch<Position> {
  count: number;
  blobKeys?: string[];
  next: Position | undefined;
}

/** Removes batch after batch, with the blobs that each leaves unnamed; answers how many rows it removed. */
export async function removeInBatches<Position>(
  round: Round,
  first: Position,
  remove: (from: Position) => Promise<Batch<Position>>,
): Promise<number> {
  let total = 0;
  for (let from: Position | undefined = first; from !== undefined && !round.isStopping(); ) {
    const batch: Batch<Position> = await remove(from);
    await removeBlobs(round, batch.blobKeys ?? []);
    total += batch.count;
    from = batch.next;
    if (from !== undefined) await pause();
  }
  return total;
}

/** The same for a removal that begins at the front each time, until it finds less than a batch. */
export function removeUntilShort(
  round: Round,
  remove: () => Promise<{ count: number; blobKeys?: string[] }>,
): Promise<number> {
  return removeInBatches(round, true, async () => {
    const removed = await remove();
    return { ...removed, next: removed.count < BATCH ? undefined : true };
  });
}

/** What the store does not remove now is named by nothing any more, and goes as an orphan later. */
async function removeBlobs({ blobs, log, isStopping }: Round, keys: readonly string[]): Promise<void> {
  for (let at = 0; at < keys.length && !isStopping(); at += AT_ONCE) {
    try {
      await Promise.all(keys.slice(at, at + AT_ONCE).map((key) => blobs.remove(key)));
    } catch (error) {
      log.warn({ error: (error as Error).message }, 'blobs that are named no longer stay until they are swept');
      return;
    }
  }
}

export interface Look {
  /** Those of the keys that were there at an earlier look too, long enough ago. */
  confirmed(keys: readonly string[]): string[];
  /** The look was whole: the next one is compared with it. */
  end(): void;
}

/** Takes for true only what was so at two looks, this far apart by the monotonic clock: no jump of a wall clock makes it so. */
export function createTwoLooks(apartMs: number): () => Look {
  /** With the monotonic ms of the first look. */
  let earlier = new Map<string, number>();
  return () => {
    const seen = new Map<string, number>();
    return {
      confirmed: (keys) => {
        const now = performance.now();
        return keys.filter((key) => {
          const since = earlier.get(key);
          if (since !== undefined && now - since >= apartMs) return true;
          seen.set(key, since ?? now);
          return false;
        });
      },
      end: () => {
        earlier = seen;
      },
    };
  };
}

/**
 * What every part of a round of housekeeping goes by: it removes in small batches with a pause between them, so that sending
 * never waits for it, and ends soon when the service stops.
 *
 * Removes blobs that no row names. A blob is an orphan only if no row named it at two looks, an hour apart by the monotonic
 * clock of this process, and it is a day old by the clock of the store: an upload or a mail that any node is accepting has its
 * row within seconds, and no jump of a wall clock makes both look true. Right before it is removed it is asked for once more,
 * where rows are written.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { namedBlobsOperation, stillNamedBlobsOperation } from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { removeBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import type { Operation } from '../storage/operation.ts';

export const BATCH = 200;
const PAUSE_MS = 20;

export interface Round {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  isStopping(): boolean;
}

export const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

/** What one batch removed, and where the next one begins; undefined after the last. */
interface Batch<Position> {
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

interface Look {
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

const OLD_MS = 86_400_000;

interface OrphanOptions {
  looksApartMs: number;
  /** Which of these blobs are named by rows of other folders (uploads). */
  alsoNamed?: ((keys: string[]) => Promise<string[]>) | undefined;
}

/** A sweep of the whole store; answers how many it removed. */
export function createOrphanSweep({ looksApartMs, alsoNamed }: OrphanOptions): (round: Round) => Promise<number> {
  const startLook = createTwoLooks(looksApartMs);

  const named = async (round: Round, op: Operation<string[], string[]>, keys: string[]): Promise<Set<string>> =>
    new Set([...(await round.database.execute(op, keys)), ...((await alsoNamed?.(keys)) ?? [])]);

  const sweepBatch = async (round: Round, look: Look, keys: string[]): Promise<number> => {
    const found = await named(round, namedBlobsOperation, keys);
    const twice = look.confirmed(keys.filter((key) => !found.has(key)));
    if (twice.length === 0) return 0;
    const missed = await named(round, stillNamedBlobsOperation, twice);
    if (missed.size > 0) {
      round.log.error({ blobKeys: [...missed] }, 'referenced blobs were reported as unreferenced; keeping them');
    }
    let removed = 0;
    for (const key of twice.filter((one) => !missed.has(one))) {
      if (round.isStopping()) break;
      await round.blobs.remove(key);
      removed += 1;
    }
    return removed;
  };

  return async (round) => {
    const look = startLook();
    const beforeMs = (await round.blobs.storeNowMs()) - OLD_MS;
    let removed = 0;
    let batch: string[] = [];
    for await (const { key, writtenAtMs } of round.blobs.list()) {
      if (round.isStopping()) return removed;
      if (writtenAtMs <= beforeMs) batch.push(key);
      if (batch.length < BATCH) continue;
      removed += await sweepBatch(round, look, batch);
      batch = [];
      await pause();
    }
    if (batch.length > 0) removed += await sweepBatch(round, look, batch);
    look.end();
    return removed;
  };
}

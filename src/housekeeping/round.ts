/**
 * Shared parts of a housekeeping round: rows are deleted in small batches with pauses, so that sending never waits, and the round ends soon
 * when the service stops.
 *
 * Deletes orphaned blobs. A blob is an orphan only if no row named it in two checks an hour apart by the monotonic clock of this process,
 * and if it is a day old by the clock of the store: a blob that any node is accepting gets its row within seconds, and no jump of a wall
 * clock can fake both. Right before deletion it is checked once more, where rows are written.
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

/** Result of one batch, and where the next one starts; undefined after the last. */
interface Batch<Position> {
  count: number;
  blobKeys?: string[];
  next: Position | undefined;
}

/** Deletes batch after batch, including the blobs that become unnamed; returns the number of deleted rows. */
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

/** Deletes from the front each time, until a batch is not full. */
export function removeUntilShort(
  round: Round,
  remove: () => Promise<{ count: number; blobKeys?: string[] }>,
): Promise<number> {
  return removeInBatches(round, true, async () => {
    const removed = await remove();
    return { ...removed, next: removed.count < BATCH ? undefined : true };
  });
}

interface CheckPass {
  /** Returns those keys that an earlier check, long enough ago, has seen too. */
  confirmed(keys: readonly string[]): string[];
  /** Marks the check as complete: the next one is compared with it. */
  end(): void;
}

/** Confirms only what two checks have found, this far apart by the monotonic clock, so a jump of the wall clock has no effect. */
export function createTwoPassCheck(apartMs: number): () => CheckPass {
  /** With the monotonic ms of the first check. */
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
  passesApartMs: number;
  /** Returns which of these blobs other tables refer to, such as those of uploads and inbound messages. */
  alsoReferenced?: ((keys: string[]) => Promise<string[]>) | undefined;
}

/** Sweeps the entire store; returns the number of deleted blobs. */
export function createOrphanSweep({ passesApartMs, alsoReferenced }: OrphanOptions): (round: Round) => Promise<number> {
  const startPass = createTwoPassCheck(passesApartMs);

  const named = async (round: Round, op: Operation<string[], string[]>, keys: string[]): Promise<Set<string>> =>
    new Set([...(await round.database.execute(op, keys)), ...((await alsoReferenced?.(keys)) ?? [])]);

  const sweepBatch = async (round: Round, pass: CheckPass, keys: string[]): Promise<number> => {
    const found = await named(round, namedBlobsOperation, keys);
    const twice = pass.confirmed(keys.filter((key) => !found.has(key)));
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
    const pass = startPass();
    const beforeMs = (await round.blobs.storeNowMs()) - OLD_MS;
    let removed = 0;
    let batch: string[] = [];
    for await (const { key, writtenAtMs } of round.blobs.list()) {
      if (round.isStopping()) return removed;
      if (writtenAtMs <= beforeMs) batch.push(key);
      if (batch.length < BATCH) continue;
      removed += await sweepBatch(round, pass, batch);
      batch = [];
      await pause();
    }
    if (batch.length > 0) removed += await sweepBatch(round, pass, batch);
    pass.end();
    return removed;
  };
}

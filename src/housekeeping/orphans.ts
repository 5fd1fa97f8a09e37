/**
 * Removes blobs that no row names. A blob is an orphan only if no row named it at two looks, an hour apart by the monotonic
 * clock of this process, and it is a day old by the clock of the store: an upload or a mail that any node is accepting has its
 * row within seconds, and no jump of a wall clock makes both look true. Right before it is removed it is asked for once more,
 * where rows are written.
 */
import { namedBlobsOperation, stillNamedBlobsOperation } from '../messages/messages.ts';
import type { Operation } from '../storage/operation.ts';
import { BATCH, createTwoLooks, type Look, pause, type Round } from './round.ts';

const OLD_MS = 86_400_000;

export interface OrphanOptions {
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
      round.log.error({ blobKeys: [...missed] }, 'blobs that are named looked like orphans; they stay');
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

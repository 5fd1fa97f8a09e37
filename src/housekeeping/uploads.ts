/**
 * Removes uploads. Open submissions go with their files 24 hours after their URLs have expired, files of sent ones when no
 * email made of them has its content any more. A submission counts as overdue only if it was so at two looks, an hour apart by
 * the monotonic clock of this process: a jump of the wall clock removes nothing.
 */
import {
  KEEP_UNSENT_MS,
  overdueBatchesOperation,
  removeOverdueOperation,
  removeUsedFilesOperation,
} from '../attachments/attachments.ts';
import { BATCH, createTwoLooks, type Round, removeInBatches } from './round.ts';

const KEEP_MS = 86_400_000;

/** Removes submissions that were not sent in time; answers how many. */
export function createOverdueRemoval(looksApartMs: number): (round: Round, nowMs: number) => Promise<number> {
  const startLook = createTwoLooks(looksApartMs);
  return async (round, nowMs) => {
    const { database } = round;
    const expiredBeforeMs = nowMs - KEEP_UNSENT_MS;
    const look = startLook();
    const removed = await removeInBatches(round, '', async (afterId) => {
      const found = await database.execute(overdueBatchesOperation, { expiredBeforeMs, afterId, limit: BATCH });
      const ids = look.confirmed(found);
      const gone = await database.execute(removeOverdueOperation, { ids, expiredBeforeMs });
      return { ...gone, next: found.length < BATCH ? undefined : found.at(-1) };
    });
    look.end();
    return removed;
  };
}

/** Removes the files of sent submissions; answers of how many. */
export function removeUsedFiles(round: Round, nowMs: number): Promise<number> {
  return removeInBatches(round, '', async (afterId) => {
    const batch = { afterId, limit: BATCH, rowsFromMs: nowMs - KEEP_MS };
    const { lastId, ...gone } = await round.database.execute(removeUsedFilesOperation, batch);
    return { ...gone, next: lastId ?? undefined };
  });
}

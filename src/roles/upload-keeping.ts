/**
 * The part of the housekeeping that concerns uploads. Open submissions go with their files 24 hours after their URLs have
 * expired, files of sent ones when no email made of them has its content any more. A submission counts as overdue only if
 * it was so twice, an hour apart by the monotonic clock of this process: a jump of the wall clock removes nothing.
 */
import {
  KEEP_UNSENT_MS,
  overdueBatchesOperation,
  removeOverdueOperation,
  removeUsedFilesOperation,
} from '../attachments/attachments.ts';
import type { Database } from '../storage/database.ts';

const KEEP_MS = 86_400_000;
const BATCH = 200;

export interface UploadKeeping {
  /** Both answer how many submissions they have changed. */
  removeOverdue(nowMs: number): Promise<number>;
  removeUsedFiles(nowMs: number): Promise<number>;
}

export interface UploadKeepingOptions {
  database: Database;
  removeBlobs(keys: string[]): Promise<void>;
  /** Between two batches. */
  pause(): Promise<void>;
  stopping(): boolean;
  /** Monotonic ms between the two looks. */
  looksApartMs: number;
}

export function keepUploads(options: UploadKeepingOptions): UploadKeeping {
  const { database, removeBlobs, pause, stopping, looksApartMs } = options;
  /** Overdue submissions with the monotonic ms of the first look. */
  let overdue = new Map<string, number>();

  return {
    removeOverdue: async (nowMs) => {
      const expiredBeforeMs = nowMs - KEEP_UNSENT_MS;
      const seen = new Map<string, number>();
      let removed = 0;
      for (let afterId = ''; !stopping(); ) {
        const ids = await database.execute(overdueBatchesOperation, { expiredBeforeMs, afterId, limit: BATCH });
        const now = performance.now();
        const twice: string[] = [];
        for (const id of ids) {
          const since = overdue.get(id);
          if (since !== undefined && now - since >= looksApartMs) twice.push(id);
          else seen.set(id, since ?? now);
        }
        const gone = await database.execute(removeOverdueOperation, { ids: twice, expiredBeforeMs });
        await removeBlobs(gone.blobKeys);
        removed += gone.count;
        if (ids.length < BATCH) break;
        afterId = ids.at(-1) ?? '';
        await pause();
      }
      overdue = seen;
      return removed;
    },
    removeUsedFiles: async (nowMs) => {
      let removed = 0;
      for (let afterId: string | null = ''; afterId !== null && !stopping(); ) {
        const gone: { count: number; blobKeys: string[]; lastId: string | null } = await database.execute(
          removeUsedFilesOperation,
          { afterId, limit: BATCH, rowsFromMs: nowMs - KEEP_MS },
        );
        await removeBlobs(gone.blobKeys);
        removed += gone.count;
        afterId = gone.lastId;
        if (afterId !== null) await pause();
      }
      return removed;
    },
  };
}

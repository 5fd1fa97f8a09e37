/**
 * Removes blobs that no row names anymore, in the background, because each removal from a remote store takes time. Both their number and
 * the concurrency are limited. Blobs that are not removed, or that the store refuses to remove, are orphans, which the sweep removes a day
 * later.
 */
import type { Log } from '../../base/log.ts';
import type { Blobs } from './blobs.ts';

const REMOVERS = 8;
const MAX_WAITING = 20_000;

interface Removing {
  blobs: Pick<Blobs, 'remove'>;
  log?: Pick<Log, 'warn'> | undefined;
  /** Once this returns true, the remaining blobs are left to the sweep. */
  isStopping?(): boolean;
}

/** Removes blobs that no row names, without waiting. */
export function dropBlobs(blobs: Pick<Blobs, 'remove'>, keys: readonly (string | null)[]): void {
  void removeBlobs({ blobs }, keys);
}

/** Resolves when the blobs are removed or left to the sweep; never rejects. Stops at the first blob that the store refuses to remove. */
export async function removeBlobs(
  { blobs, log, isStopping = () => false }: Removing,
  keys: readonly (string | null)[],
): Promise<void> {
  const waiting = keys.filter((key) => key !== null).values();
  let isRefused = false;
  const remove = async (): Promise<void> => {
    for (const key of waiting) {
      if (isRefused || isStopping()) return;
      isRefused = !(await isRemoved({ blobs, log }, key)) || isRefused;
    }
  };
  await Promise.all(Array.from({ length: Math.min(REMOVERS, keys.length) }, remove));
}

async function isRemoved({ blobs, log }: Removing, blobKey: string): Promise<boolean> {
  try {
    await blobs.remove(blobKey);
    return true;
  } catch (error) {
    log?.warn({ blobKey, error: (error as Error).message }, 'content removal failed; the sweep will retry');
    return false;
  }
}

export interface BlobRemover {
  /** Schedules the removal without waiting. */
  add(keys: readonly string[]): void;
  /** Resolves when the queue is empty. */
  idle(): Promise<void>;
  /** Leaves queued blobs to the sweep. */
  abandon(): void;
}

export function createBlobRemover({ blobs, log }: { blobs: Blobs; log: Log }): BlobRemover {
  let waiting: string[] = [];
  let running = 0;
  const whenIdle: (() => void)[] = [];

  const run = async (): Promise<void> => {
    for (let key = waiting.shift(); key !== undefined; key = waiting.shift()) {
      await isRemoved({ blobs, log }, key);
    }
    running -= 1;
    if (running === 0) for (const resolve of whenIdle.splice(0)) resolve();
  };

  return {
    add: (keys) => {
      const capacity = MAX_WAITING - waiting.length;
      if (keys.length > capacity) log.warn({ left: keys.length - capacity }, 'content removal postponed to the sweep');
      waiting.push(...keys.slice(0, Math.max(0, capacity)));
      while (running < REMOVERS && waiting.length > 0) {
        running += 1;
        void run();
      }
    },
    idle: () =>
      running === 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            whenIdle.push(resolve);
          }),
    abandon: () => {
      waiting = [];
    },
  };
}

/**
 * Removes blobs that no row names any more, beside whatever else happens: a store over the network takes its time for each.
 * Bounded in number and in what runs at once. What it does not get to, or the store refuses, is an orphan, which the
 * sweep removes a day later.
 */
import type { Log } from '../../base/log.ts';
import type { Blobs } from './blobs.ts';

const REMOVERS = 8;
const MAX_WAITING = 20_000;

/** Removes what nothing names after all. Not awaited; a blob that stays is an orphan, and is swept later. */
export function dropBlobs(blobs: Pick<Blobs, 'remove'>, keys: readonly (string | null)[]): void {
  for (const key of keys) if (key !== null) blobs.remove(key).catch(() => undefined);
}

export interface BlobRemover {
  /** Soon, and not awaited. */
  add(keys: readonly string[]): void;
  /** Resolves when nothing is left to remove. */
  idle(): Promise<void>;
  /** Leaves what waits to the sweep. */
  abandon(): void;
}

export function createBlobRemover({ blobs, log }: { blobs: Blobs; log: Log }): BlobRemover {
  let waiting: string[] = [];
  let running = 0;
  const whenIdle: (() => void)[] = [];

  const run = async (): Promise<void> => {
    for (let key = waiting.shift(); key !== undefined; key = waiting.shift()) {
      await blobs.remove(key).catch((error: Error) => {
        log.warn({ blobKey: key, error: error.message }, 'content could not be removed; the sweep will do it');
      });
    }
    running -= 1;
    if (running === 0) for (const resolve of whenIdle.splice(0)) resolve();
  };

  return {
    add: (keys) => {
      const room = MAX_WAITING - waiting.length;
      if (keys.length > room) log.warn({ left: keys.length - room }, 'content to remove is left to the sweep');
      waiting.push(...keys.slice(0, Math.max(0, room)));
      // Each takes its first one as it begins.
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

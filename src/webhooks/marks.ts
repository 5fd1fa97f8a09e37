/**
 * The mark on rows that were in a crash before (work/work.ts): set before they are sent, taken off when they have been under way for a
 * while and the process still lives. Few are under it at once (running-limit.ts).
 */
import { openRunningLimit, wasInCrash } from '../work/work.ts';

/** A request that has run for so long brings no process down. */
const WATCH_MS = 1_500;

export interface MarkDeps<J> {
  /** Rejects when the storage refuses. */
  write(job: J, tried: boolean): Promise<void>;
  /** Whether anything may be sent at the moment. */
  open(): boolean;
  /** This one has been under way for long enough: it brings no process down. */
  onCleared(job: J): void;
}

/**
 * Marks the row if it needs that, when one more may be under the mark; answers what ends the watch over it, or undefined when nothing
 * may be sent any more.
 */
export function createMarks<J extends { crashes: number }>(deps: MarkDeps<J>) {
  const limit = openRunningLimit();
  return async (job: J): Promise<(() => void) | undefined> => {
    if (!wasInCrash(job)) return () => undefined;
    if (!(await limit.enter(1, deps.open))) return undefined;
    let watch: NodeJS.Timeout | undefined;
    let isIn = true;
    const end = (): void => {
      clearTimeout(watch);
      if (isIn) limit.leave(1);
      isIn = false;
    };
    try {
      await deps.write(job, true);
    } catch (error) {
      end();
      throw error;
    }
    watch = setTimeout(() => {
      deps.write(job, false).catch(() => undefined);
      deps.onCleared(job);
      end();
    }, WATCH_MS);
    return end;
  };
}

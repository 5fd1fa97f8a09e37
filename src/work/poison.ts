/**
 * Finds the row that kills the process: rows that were held at an earlier crash are marked in the database while they run (see store.ts);
 * other rows cost nothing. The mark is removed when the row is put back, and when its attempt has run for a while without a crash: a row
 * kills a process while it is being processed, not while it waits for a slow peer. Invariant: no row that was in a crash runs without the
 * mark.
 *
 * The number of marked rows is limited, because every row that is marked at a second crash is later tried alone, one after another: at most
 * 16, and fewer in a young process, since a process that was just restarted may crash again.
 */
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { Item } from './kind.ts';
import { markRunningOperation, wasInCrash } from './store.ts';

const WATCH_MS = 1_500;
/** A row that was claimed this often and was in a crash is watched to the end: it may kill late. */
const CLAIMED_OFTEN = 100;
/** Pause before the next try if the storage refuses the mark. */
const REFUSED_PAUSE_MS = 1_000;
const MOST = 16;
/** For each of these periods of its age, a process may mark one more row. */
const STEP_MS = 1_000;

export interface PoisonGuardDeps<I extends Item> {
  database: Database;
  log: Log;
  /** How long an attempt is watched; default 1.5 s. */
  watchMs?: number | undefined;
  isOpen(): boolean;
  /** These items have run long enough without a crash. */
  onCleared(items: I[]): void;
}

export interface PoisonGuard<I extends Item> {
  /**
   * Marks the items that were in a crash, once the limit allows it. Returns a function that ends the watch, or undefined if the storage
   * fails or attempts may not run.
   */
  watch(group: readonly I[]): Promise<(() => void) | undefined>;
  /** Removes the mark of items that are put back. */
  unmark(items: readonly I[]): void;
}

export function openPoisonGuard<I extends Item>(deps: PoisonGuardDeps<I>): PoisonGuard<I> {
  const { database, log } = deps;
  const limit = openRunningLimit();

  const write = async (items: readonly I[], running: boolean): Promise<boolean> => {
    try {
      const leases = items.map(({ job }) => ({ seq: job.seq, fence: job.fence }));
      await database.execute(markRunningOperation, { leases, running });
      return true;
    } catch (error) {
      log.warn({ rows: items.length, running, error: (error as Error).message }, 'work rows not marked as running');
      return false;
    }
  };

  const unmark = (items: readonly I[]): void => {
    const marked = items.filter((one) => wasInCrash(one.job));
    if (marked.length > 0) void write(marked, false);
  };

  return {
    watch: async (group) => {
      const marked = group.filter((one) => wasInCrash(one.job));
      if (marked.length === 0) return () => undefined;
      if (!(await limit.enter(marked.length, deps.isOpen))) return undefined;
      let timer: NodeJS.Timeout | undefined;
      let isIn = true;
      const end = (): void => {
        clearTimeout(timer);
        if (isIn) limit.leave(marked.length);
        isIn = false;
      };
      if (!(await write(marked, true))) {
        end();
        await new Promise((resolve) => setTimeout(resolve, REFUSED_PAUSE_MS));
        return undefined;
      }
      timer = setTimeout(() => {
        const harmless = marked.filter((one) => one.state === 'running' && one.job.fence < CLAIMED_OFTEN);
        unmark(harmless);
        deps.onCleared(harmless);
        end();
      }, deps.watchMs ?? WATCH_MS);
      return end;
    },
    unmark,
  };
}

export interface RunningLimit {
  /** Resolves when this many more rows may be marked; with false if `isOpen` returns false before that. */
  enter(rows: number, isOpen: () => boolean): Promise<boolean>;
  /** Removes this many rows from the count. */
  leave(rows: number): void;
}

/** `ageMs` returns the age of the process. */
export function openRunningLimit(ageMs: () => number = ageOfThis()): RunningLimit {
  let entered = 0;
  /** Resolved and replaced when rows leave or the process ages. */
  let changed = Promise.withResolvers<void>();
  /** In sequence, so that small groups never overtake a large one indefinitely. */
  let line: Promise<unknown> = Promise.resolve();

  const waitFor = async (rows: number, isOpen: () => boolean): Promise<boolean> => {
    while (isOpen()) {
      // A group larger than the limit is marked alone.
      if (entered === 0 || entered + rows <= Math.min(MOST, 1 + Math.floor(ageMs() / STEP_MS))) {
        entered += rows;
        return true;
      }
      const next = changed;
      const older = setTimeout(next.resolve, STEP_MS);
      await next.promise;
      clearTimeout(older);
      if (changed === next) changed = Promise.withResolvers();
    }
    return false;
  };

  return {
    enter: (rows, isOpen) => {
      const entering = line.then(() => waitFor(rows, isOpen));
      line = entering;
      return entering;
    },
    leave: (rows) => {
      entered -= rows;
      changed.resolve();
      changed = Promise.withResolvers();
    },
  };
}

function ageOfThis(): () => number {
  const startedAt = performance.now();
  return () => performance.now() - startedAt;
}

/**
 * Which row kills the process: rows that were held at an earlier death are marked in the database while they
 * run (store.ts says why), all others cost nothing. The mark is taken off when the row is put back, and when its attempt has
 * run for a while and the process still lives: what brings a process down does so when it is worked on, not while it waits
 * for a slow peer. Always true: no row that was in a crash runs without the mark.
 *
 * Few rows are marked at once. Whatever is marked when the process dies a second time is tried alone afterwards, one row after
 * the other; so at most 16 are, and fewer in a young process, since one that was killed a moment ago may be killed again.
 * Without this a service that was killed six times in a row with 600 mails in hand had 250 events to tell one by one, and
 * those of slow endpoints would have waited for many minutes.
 */
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { Item } from './kind.ts';
import { markRunningOperation, wasInCrash } from './store.ts';

const WATCH_MS = 1_500;
/** A row that was claimed so often and was in a crash is watched to the end: it may kill late. */
const CLAIMED_OFTEN = 100;
/** Before the next try when the storage refuses the mark. */
const REFUSED_PAUSE_MS = 1_000;
const MOST = 16;
/** After each of these spans of its life a process may mark one row more. */
const STEP_MS = 1_000;

export interface PoisonGuardDeps<I extends Item> {
  database: Database;
  log: Log;
  /** How long an attempt is watched; default 1.5 s. */
  watchMs?: number | undefined;
  /** Whether anything may run at the moment. */
  isOpen(): boolean;
  /** These have run for long enough: they bring no process down. */
  onCleared(items: I[]): void;
}

export interface PoisonGuard<I extends Item> {
  /**
   * Marks those that were in a crash, once so many more may be; answers what ends the watch over them, or undefined when the
   * storage refuses, or nothing may run.
   */
  watch(group: readonly I[]): Promise<(() => void) | undefined>;
  /** Takes the mark off what is put back. */
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
  /** Resolves when so many more may be marked; false when `isOpen` says no before that. */
  enter(rows: number, isOpen: () => boolean): Promise<boolean>;
  /** So many are not marked any more. */
  leave(rows: number): void;
}

/** `ageMs` is that of the process. */
export function openRunningLimit(ageMs: () => number = ageOfThis()): RunningLimit {
  let entered = 0;
  /** Resolved, and made new, when somebody leaves or the process is older. */
  let changed = Promise.withResolvers<void>();
  /** One after the other: a large group is not passed by smaller ones for ever. */
  let line: Promise<unknown> = Promise.resolve();

  const waitFor = async (rows: number, isOpen: () => boolean): Promise<boolean> => {
    while (isOpen()) {
      // A group that is larger than the limit goes alone.
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

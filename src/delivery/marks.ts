/**
 * Who is to blame when the process dies: rows that were held at an earlier death are marked in the queue while they are
 * tried (work/work.ts tells why), all others cost nothing. The mark is taken off when the row is put back, and when the
 * attempt has run for a while and the process still lives: what brings a process down does so when it is worked on, not
 * while it waits for a slow peer. Always true: no row that needs the mark is tried without it.
 */
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { markRunningOperation, openRunningLimit, wasInCrash } from '../work/work.ts';
import type { Held } from './window.ts';

export const WATCH_MS = 1_500;
/** A row that was claimed so often and is still under suspicion is watched to the end: it may kill late. */
const CLAIMED_OFTEN = 100;
/** Before the next try when the storage refuses the mark. */
const REFUSED_PAUSE_MS = 1_000;

export interface MarkDeps {
  database: Database;
  log: Log;
  watchMs: number;
  /** Whether anything may be tried at the moment. */
  open(): boolean;
  /** These have been tried for long enough: they bring no process down. */
  onCleared(held: Held[]): void;
}

export interface Marks {
  /** Marks those that need it, when so many more may be; undefined when the storage refuses, or nothing may be tried. */
  set(group: Held[]): Promise<{ end(): void } | undefined>;
  /** Takes the mark off what is put back. */
  lift(held: Held[]): void;
}

const UNMARKED = { end: () => undefined };

export function openMarks(deps: MarkDeps): Marks {
  const { database, log } = deps;
  const limit = openRunningLimit();

  const write = async (held: Held[], tried: boolean): Promise<boolean> => {
    try {
      const leases = held.map(({ job }) => ({ seq: job.seq, fence: job.fence }));
      await database.execute(markRunningOperation, { leases, running: tried });
      return true;
    } catch (error) {
      log.warn({ messages: held.length, tried, error: (error as Error).message }, 'a mark could not be written');
      return false;
    }
  };

  const lift = (held: Held[]): void => {
    const marked = held.filter((one) => wasInCrash(one.job));
    if (marked.length > 0) void write(marked, false);
  };

  return {
    set: async (group) => {
      const marked = group.filter((one) => wasInCrash(one.job));
      if (marked.length === 0) return UNMARKED;
      if (!(await limit.enter(marked.length, deps.open))) return undefined;
      let inLimit = true;
      const leave = (): void => {
        if (inLimit) limit.leave(marked.length);
        inLimit = false;
      };
      if (!(await write(marked, true))) {
        leave();
        await new Promise((resolve) => setTimeout(resolve, REFUSED_PAUSE_MS));
        return undefined;
      }
      const timer = setTimeout(() => {
        const harmless = marked.filter((one) => one.state === 'trying' && one.job.fence < CLAIMED_OFTEN);
        lift(harmless);
        deps.onCleared(harmless);
        leave();
      }, deps.watchMs);
      return {
        end: () => {
          clearTimeout(timer);
          leave();
        },
      };
    },
    lift,
  };
}

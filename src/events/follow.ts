/**
 * Wakes those who follow the log. All of them share one look at the ends of their logs, twice a second, and at once when
 * this process has written something; who has nothing new is not woken. Waking is a hint: each reads from where it is.
 */
import type { Running } from '../base/lifecycle.ts';
import type { Database } from '../storage/database.ts';
import { type LogOwner, latestPlacesOperation } from './latest-store.ts';

const POLL_MS = 500;
/** Between two looks: what is written in one moment is seen together. */
const GAP_MS = 15;
/** Owners of one look. */
const AT_ONCE = 500;

export interface Followers extends Running {
  /** Something may have been written; cheap while nobody follows. */
  nudge(): void;
  /** Calls `changed` when the owner's log has grown, until what is answered is called. */
  follow(owner: LogOwner, changed: () => void): () => void;
}

interface Log {
  owner: LogOwner;
  listeners: Set<() => void>;
  /** Number of the last event seen; undefined before the first look. */
  lastSeq: number | undefined;
}

export function createFollowers({ database, pollMs = POLL_MS }: { database: Database; pollMs?: number }): Followers {
  const logs = new Map<string, Log>();
  let looking = false;
  let again = false;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  const compare = async (part: Log[]): Promise<void> => {
    const places = await database.execute(
      latestPlacesOperation,
      part.map((log) => log.owner),
    );
    for (const [index, log] of part.entries()) {
      const { seq } = places[index]!;
      // Before the first look something may have been written that its follower has not seen.
      if (log.lastSeq === seq) continue;
      log.lastSeq = seq;
      for (const listener of [...log.listeners]) listener();
    }
  };

  const look = async (): Promise<void> => {
    looking = true;
    again = false;
    try {
      const all = [...logs.values()];
      for (let at = 0; at < all.length; at += AT_ONCE) await compare(all.slice(at, at + AT_ONCE));
    } catch {
      // The storage refuses for now; the next look tells what was missed.
    }
    looking = false;
    if (!stopped && logs.size > 0) plan(again ? GAP_MS : pollMs);
    // The next subscriber starts a new look.
    else again = false;
  };

  const plan = (waitMs: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void look(), waitMs);
    timer.unref();
  };

  const nudge = (): void => {
    if (stopped || logs.size === 0 || again) return;
    again = true;
    if (!looking) plan(GAP_MS);
  };

  return {
    nudge,
    follow: (owner, changed) => {
      const name = `${owner.accountId} ${owner.mode}`;
      let log = logs.get(name);
      if (!log) {
        log = { owner, listeners: new Set(), lastSeq: undefined };
        logs.set(name, log);
      }
      log.listeners.add(changed);
      nudge();
      const { listeners } = log;
      return () => {
        listeners.delete(changed);
        if (listeners.size === 0 && logs.get(name)?.listeners === listeners) logs.delete(name);
      };
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

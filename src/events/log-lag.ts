/**
 * Measures how long one transaction of the database server has blocked the log of events, and warns about it. The measure needs no
 * rights on the server: the id of the oldest transaction stays the same while it is open.
 */
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { logBlockerOperation } from '../storage/meta-store.ts';

const CHECK_MS = 5_000;
/** Transactions of Postrider end long before. */
export const LAG_WARN_SECONDS = 60;

interface LogLag extends Running {
  /** How long the log has been blocked, in seconds; 0 if it is not. */
  seconds(): number;
  /** Reads the oldest transaction now; rejects as the database does. */
  look(): Promise<void>;
}

interface LogLagOptions {
  database: Database;
  log: Log;
  /** Monotonic milliseconds. */
  elapsedMs?: () => number;
  everyMs?: number;
}

export function startLogLag(options: LogLagOptions): LogLag {
  const { database, log, elapsedMs = () => performance.now(), everyMs = CHECK_MS } = options;
  let blocker: { xid: number; sinceMs: number; isLogged: boolean } | undefined;
  const seconds = (): number => (blocker ? Math.floor((elapsedMs() - blocker.sinceMs) / 1_000) : 0);
  const look = async (): Promise<void> => {
    const found = await database.execute(logBlockerOperation, null);
    if (found.xid === null) {
      blocker = undefined;
      return;
    }
    if (blocker?.xid !== found.xid) {
      blocker = { xid: found.xid, sinceMs: elapsedMs() - 1_000 * (found.seconds ?? 0), isLogged: false };
    }
    if (blocker.isLogged || seconds() < LAG_WARN_SECONDS) return;
    blocker.isLogged = true;
    log.warn(
      { seconds: seconds(), database: found.database ?? 'unknown', xid: found.xid },
      'long database transaction blocks new events for webhooks, streams, and statistics; end it',
    );
  };
  let looking: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    if (database.state().ready) looking = look().catch(() => undefined);
  }, everyMs);
  timer.unref();
  if (database.dialect === 'sqlite') clearInterval(timer);
  return {
    seconds,
    look,
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

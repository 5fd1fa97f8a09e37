/**
 * Keeps the counters close to the end of the logs, outside of the writers' path. Logs with recent events are checked every second; all logs
 * every minute, which also finds events from before the first start. One node counts at a time, since the others' steps would be discarded.
 * Readers see exact numbers even if this lags: they add what is not counted yet (read-store.ts).
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import {
  addStepOperation,
  countStepOperation,
  type StaleStatistics,
  type StaleStatisticsPage,
  type StatisticsOwner,
  type Step,
  staleStatisticsOperation,
} from './roll-up-store.ts';

/** Events per step: about ten milliseconds of the reader thread. */
const STEP_EVENTS = 1_000;
const PASS_MS = 1_000;
const SWEEP_MS = 60_000;
/** Accounts per check of their logs. */
const ACCOUNTS_AT_ONCE = 500;
/** Steps of one log before the next log has its turn. */
const STEPS_AT_ONCE = 20;
/** Pause between two steps of a log that is far behind, for other readers and writers. */
const PAUSE_MS = 10;

/** Runs one step; null at the end of the log. */
async function step(database: Database, owner: StatisticsOwner): Promise<Step | null> {
  const next = await database.execute(countStepOperation, { owner, limit: STEP_EVENTS });
  if (next !== null) await database.execute(addStepOperation, next);
  return next;
}

/** Yields the logs with uncounted events, some accounts at a time. */
async function* staleStatistics(database: Database): AsyncGenerator<StaleStatistics[]> {
  for (let after: string | null = ''; after !== null; ) {
    const found: StaleStatisticsPage = await database.execute(staleStatisticsOperation, {
      after,
      accounts: ACCOUNTS_AT_ONCE,
    });
    yield found.behind;
    after = found.next;
  }
}

/** Counts all logs to their ends. */
export async function countAll(database: Database): Promise<void> {
  for await (const logs of staleStatistics(database))
    for (const one of logs) await catchUp(database, one, Number.POSITIVE_INFINITY);
}

/** Counts a log to its end, at most until this time of performance.now(). */
export async function catchUp(database: Database, owner: StatisticsOwner, deadline: number): Promise<void> {
  while (performance.now() < deadline && (await step(database, owner))?.isLast === false);
}

export interface RollUpOptions {
  database: Database;
  clock: Clock;
  log: Log;
  /** Whether this process does the counting. */
  isChosen?: () => boolean;
  passMs?: number;
  sweepMs?: number;
}

export interface RollUp extends Running {
  /** Returns how far the counters lag, as far as known: events, at most 100,000 per log, and the age of the oldest one of live mail. */
  lag(): { events: number; seconds: number };
}

export function startRollUp(options: RollUpOptions): RollUp {
  const { database, clock, log, isChosen = () => true, passMs = PASS_MS, sweepMs = SWEEP_MS } = options;
  /** Logs that had uncounted events at the last check. */
  const behind = new Map<string, StaleStatistics>();
  let sweptAt = Number.NEGATIVE_INFINITY;
  let stopping = false;
  let wake = (): void => undefined;

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const sweep = async (): Promise<void> => {
    behind.clear();
    for await (const logs of staleStatistics(database)) {
      for (const one of logs) behind.set(`${one.accountId} ${one.mode}`, one);
      if (stopping) return;
      await pause(PAUSE_MS);
    }
    sweptAt = performance.now();
  };

  const advance = async (name: string, one: StaleStatistics): Promise<void> => {
    for (let steps = 0; steps < STEPS_AT_ONCE && !stopping; steps += 1) {
      const done = await step(database, one);
      if (done === null) behind.delete(name);
      if (done === null || done.isLast) {
        one.events = 0;
        return;
      }
      one.events = Math.max(1, one.events - done.events);
      one.sinceMs = done.lastAtMs;
      await pause(PAUSE_MS);
    }
  };

  const pass = async (): Promise<void> => {
    if (!isChosen()) return behind.clear();
    if (performance.now() - sweptAt >= sweepMs) await sweep();
    for (const [name, one] of behind) if (!stopping) await advance(name, one);
  };

  const running = (async () => {
    while (!stopping) {
      await pass().catch((error: Error) => {
        const level = error instanceof Unavailable ? 'warn' : 'error';
        log[level]({ error: error.message }, 'statistics delayed; continuing with the next pass');
      });
      if (!stopping) await pause(passMs);
    }
  })();

  return {
    lag: () => {
      const late = [...behind.values()].filter((one) => one.events > 0);
      const oldestMs = Math.min(clock.now(), ...late.filter((one) => one.mode === 'live').map((one) => one.sinceMs));
      return {
        events: late.reduce((sum, one) => sum + one.events, 0),
        seconds: (clock.now() - oldestMs) / 1_000,
      };
    },
    stop: async () => {
      stopping = true;
      wake();
      await running;
    },
  };
}

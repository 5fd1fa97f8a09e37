/**
 * Notices when the wall clock was set back: what is deferred would wait for as much longer, so it is brought back to within
 * one step of its schedule. The same is done at every start, because the clock may have been set while nothing ran.
 */
import { webhookDelayMs } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import { JUMP_MS, watchJumps } from '../base/clock-jump.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { clampDueOperation } from './clock-store.ts';

/** A step of the schedule with its jitter, and as much again. */
const SLACK = 1.15;
/** Longest that an endpoint may have asked for with Retry-After; what was asked is not known at a start. */
const LATEST_RETRY_MS = 24 * 3_600_000;

/** How long a delivery may wait at most after attempt n (1-based); `exact` leaves no room for what an endpoint asked for. */
function latestWaits(exact: boolean): number[] {
  const waits: number[] = [];
  for (let attempts = 1; ; attempts += 1) {
    const delayMs = webhookDelayMs(attempts);
    if (delayMs === undefined) return waits;
    waits.push(Math.max(Math.round(delayMs * SLACK), exact ? 0 : LATEST_RETRY_MS));
  }
}

export interface ClockWatchDeps {
  clock: Clock;
  database: Database;
  log: Log;
  /** The longest that a delivery waits after a crash. */
  crashPauseMs: number;
}

/** What it answers is to be called each second; it rejects when the storage refuses, and mends at the next call then. */
export function watchClock(deps: ClockWatchDeps): () => Promise<void> {
  const { clock, database, log, crashPauseMs } = deps;
  const jumpOf = watchJumps(clock);
  let isMended = false;
  let isSetBack = false;
  return async () => {
    const jumpMs = jumpOf();
    if (jumpMs < -JUMP_MS) {
      log.warn({ jumpMs: Math.round(jumpMs) }, 'the clock was set back');
      isSetBack = true;
      isMended = false;
    }
    if (isMended) return;
    await database.execute(clampDueOperation, {
      nowMs: clock.now(),
      latestMs: latestWaits(isSetBack),
      crashPauseMs,
    });
    isMended = true;
    isSetBack = false;
  };
}

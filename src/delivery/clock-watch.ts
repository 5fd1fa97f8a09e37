/**
 * Notices when the wall clock jumps, by comparing it with the monotonic one. Forward: leases look expired and are extended at
 * once. Backward: what is deferred would wait for as long as the jump was, so that it is brought back to within one step of
 * its schedule; the same is done at every start, because the clock may have been set while nothing ran.
 */

import { deliveryDelayMs } from '../base/backoff.ts';
import { type Clock, JUMP_MS, watchJumps } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { clampDueOperation } from './clock-store.ts';

/** After the eighth attempt the step no longer grows. */
const STEPS = 8;
/** The longest of the pauses of slots.ts and settler.ts. */
const CRASH_PAUSE_MS = 30_000;
/** A step with its jitter, and as much again as a slow tick may take. */
const SLACK = 1.15;

export interface ClockWatch {
  /** Whether the clock has jumped since the last look; what must be mended in the queue is mended then. */
  look(): Promise<boolean>;
}

export function startClockWatch(deps: { clock: Clock; database: Database; log: Log }): ClockWatch {
  const { clock, database, log } = deps;
  const jumpOf = watchJumps(clock);
  let clamped = false;
  return {
    look: async () => {
      const jumpMs = jumpOf();
      const jumped = Math.abs(jumpMs) > JUMP_MS;
      if (jumped) log.warn({ jumpMs: Math.round(jumpMs) }, 'the clock has jumped');
      if (jumped && jumpMs < 0) clamped = false;
      if (clamped) return jumped;
      try {
        const latestMs = Array.from({ length: STEPS }, (_, step) => Math.round(deliveryDelayMs(step + 1) * SLACK));
        const brought = await database.execute(clampDueOperation, {
          nowMs: clock.now(),
          latestMs,
          crashPauseMs: CRASH_PAUSE_MS,
        });
        if (brought > 0)
          log.warn({ messages: brought }, 'messages were due later than their schedule allows; brought forward');
        clamped = true;
      } catch (error) {
        log.warn({ error: (error as Error).message }, 'the schedule could not be checked against the clock');
      }
      return jumped;
    },
  };
}

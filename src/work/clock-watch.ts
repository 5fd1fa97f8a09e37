/**
 * Notices when the wall clock was set, by comparing it with the monotonic one. What is deferred would wait for as long as it
 * was set back: it is brought back to within one step of its schedule. The same is done at every start, because the clock may
 * have been set while nothing ran. Leases need no care of this: those that look too short or too long are extended anyhow.
 */
import type { Clock } from '../base/clock.ts';
import { JUMP_MS, watchJumps } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

export interface ClockWatchDeps {
  clock: Clock;
  log: Log;
  kind: string;
  /** Brings the schedule back in order; answers how many rows were due too late. */
  repair(options: { isSetBack: boolean }): Promise<number>;
}

/** What it answers is to be called each second; it rejects when the storage refuses, and repairs at the next call then. */
export function watchClock({ clock, log, kind, repair }: ClockWatchDeps): () => Promise<void> {
  const jumpOf = watchJumps(clock);
  let isRepaired = false;
  let isSetBack = false;
  return async () => {
    const jumpMs = jumpOf();
    if (Math.abs(jumpMs) > JUMP_MS) log.warn({ jumpMs: Math.round(jumpMs) }, 'the clock has jumped');
    if (jumpMs < -JUMP_MS) {
      isSetBack = true;
      isRepaired = false;
    }
    if (isRepaired) return;
    const rows = await repair({ isSetBack });
    if (rows > 0) log.warn({ kind, rows }, 'work was due later than its schedule allows; brought forward');
    isRepaired = true;
    isSetBack = false;
  };
}

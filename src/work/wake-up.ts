/**
 * A sleep with reasons to wake early. A nudge while nothing sleeps is remembered, so that none is lost between a claim and the sleep after
 * it.
 */

type Reason = 'nudge' | 'capacity' | 'stop';

export interface WakeUp {
  /** There may be work. */
  nudge(): void;
  /** There is capacity for more work. */
  capacity(): void;
  stop(): void;
  /** Resolves after `ms`, or for the given reason; immediately if there was a nudge since the last sleep that waits for one. */
  sleep(ms: number, reason: Reason): Promise<void>;
}

export function createWakeUp(): WakeUp {
  const sleepers = new Set<{ reason: Reason; wake(): void }>();
  let nudged = false;
  let stopped = false;
  const wake = (reason: Reason): void => {
    for (const sleeper of sleepers) if (sleeper.reason === reason || reason === 'stop') sleeper.wake();
  };
  return {
    nudge: () => {
      if (nudged) return;
      nudged = true;
      wake('nudge');
    },
    capacity: () => wake('capacity'),
    stop: () => {
      stopped = true;
      wake('stop');
    },
    sleep: async (ms, reason) => {
      if (!stopped && !(reason === 'nudge' && nudged)) {
        await new Promise<void>((resolve) => {
          const wakeUp = (): void => {
            clearTimeout(timer);
            sleepers.delete(sleeper);
            resolve();
          };
          const timer = setTimeout(wakeUp, ms);
          const sleeper = { reason, wake: wakeUp };
          sleepers.add(sleeper);
        });
      }
      if (reason === 'nudge') nudged = false;
    },
  };
}

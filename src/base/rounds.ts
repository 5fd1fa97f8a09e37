/** Work that is repeated in rounds, which never overlap. Work that a round could not finish is left to the next one. */
import { Unavailable } from './failure.ts';
import type { Running } from './lifecycle.ts';
import type { Log } from './log.ts';

export interface Rounds extends Running {
  /** Runs a round now, or joins the one in progress; never rejects. */
  run(): Promise<void>;
}

interface RoundOptions {
  name: string;
  everyMs: number;
  log: Log;
  /** Does one round; returns between two steps once isStopping() is true. */
  round(isStopping: () => boolean): Promise<void>;
}

export function startRounds({ name, everyMs, log, round }: RoundOptions): Rounds {
  let stopping = false;
  let running: Promise<void> | undefined;
  const run = (): Promise<void> => {
    running ??= round(() => stopping)
      .catch((error: Error) => {
        const level = error instanceof Unavailable ? 'warn' : 'error';
        log[level]({ task: name, error: error.message }, 'background task failed; continuing with the next round');
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };
  const timer = setInterval(() => void run(), everyMs);
  return {
    run,
    stop: async () => {
      stopping = true;
      clearInterval(timer);
      await running;
    },
  };
}

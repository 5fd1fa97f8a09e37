/** While this process accepts mail, webhooks give way to it: each account starts its attempts a few at a time. */

/**
 * Attempts that one account may start between two pauses: at most 1,300 a second. The pause is what counts: with 8 starts in each
 * turn of the event loop and no pause the others stayed 4 times slower; 8 and a pause of 2 ms made it 3 times, with or without
 * smaller transactions of claims and results.
 */
export const AT_ONCE = 4;
const PAUSE_MS = 3;
/** So long after the last mail its sender may still be about to send the next. */
export const ACCEPTING_MS = 100;

export interface Pace {
  /** Mail was accepted just now. */
  giveWay(): void;
  /** Whether an account may start one more attempt now. */
  allows(accountId: string): boolean;
  started(accountId: string): void;
  stop(): void;
}

/** `resume` is called when accounts that were refused may start more; `nowMs` is a clock that only goes forward. */
export function createPace(resume: () => void, nowMs: () => number = () => performance.now()): Pace {
  const starts = new Map<string, number>();
  let acceptedAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  const goOn = (): void => {
    timer = undefined;
    starts.clear();
    resume();
  };
  return {
    giveWay: () => {
      acceptedAtMs = nowMs();
    },
    allows: (accountId) => (starts.get(accountId) ?? 0) < AT_ONCE,
    started: (accountId) => {
      if (nowMs() - acceptedAtMs > ACCEPTING_MS) return;
      starts.set(accountId, (starts.get(accountId) ?? 0) + 1);
      timer ??= setTimeout(goOn, PAUSE_MS);
    },
    stop: () => clearTimeout(timer),
  };
}

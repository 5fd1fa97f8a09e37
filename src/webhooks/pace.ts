/** While this process accepts mail, webhooks yield to it: each account starts only a few attempts at a time. */

/** Attempts that one account may start between two pauses of 3 ms: at most 1,300 a second. */
export const AT_ONCE = 4;
const PAUSE_MS = 3;
/** A sender may send its next message within this time. */
export const ACCEPTING_MS = 100;

export interface Pace {
  /** Call when a message was accepted. */
  giveWay(): void;
  /** Whether an account may start another attempt now. */
  allows(accountId: string): boolean;
  started(accountId: string): void;
  stop(): void;
}

/** `resume` is called when accounts that were held back may start more; `nowMs` is a monotonic clock. */
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

/**
 * Ends a rendering by the time it works, not by the time that passes: on a busy machine a thread may stand still for longer
 * than any rendering takes, and good mail must not be refused for that. The wall clock is looked at first, since it costs
 * nothing; only when it says that half of the limit has passed, the thread's own processor time decides about the other half.
 */

/**
 * Work of one rendering, all of its parts together; an ordinary one takes a tenth of a millisecond. The event loop waits for it, and
 * nobody may hold that for more than 100 ms: what may follow the last question (html of 256 KB made into text) takes up to 45 ms.
 */
export const RENDER_LIMIT_MS = 50;

/** What Liquid ends a rendering with; parse.ts makes a sentence of it. */
export const RENDER_LIMIT_EXCEEDED = 'template render limit exceeded';

/** Processor time of this thread in milliseconds. */
export function threadTimeMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** In the place of Liquid's own limiter, which is asked before each tag with performance.now(). */
export interface TimeLimit {
  use(count: number): void;
  check(nowMs: number): void;
}

export function createTimeLimit(startedMs: number, workedMs: () => number = threadTimeMs): TimeLimit {
  const half = RENDER_LIMIT_MS / 2;
  let workedAtHalf: number | undefined;
  return {
    use: () => undefined,
    check: (nowMs) => {
      if (nowMs - startedMs <= half) return;
      workedAtHalf ??= workedMs();
      if (workedMs() - workedAtHalf > half) throw new Error(RENDER_LIMIT_EXCEEDED);
    },
  };
}

/** A counting semaphore: limits the number of permits held at the same time; waiting callers get theirs in order. */
export interface Semaphore {
  /** Resolves once a permit is held; release each permit once. */
  acquire(): Promise<void>;
  release(): void;
  /** Runs the work with a permit, which is released in any case. */
  run<T>(work: () => Promise<T>): Promise<T>;
}

export function createSemaphore(permits: number): Semaphore {
  const waiting: (() => void)[] = [];
  let free = permits;
  const acquire = async (): Promise<void> => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  };
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  return {
    acquire,
    release,
    run: async (work) => {
      await acquire();
      try {
        return await work();
      } finally {
        release();
      }
    },
  };
}

/** A counting semaphore: at most so many permits are held at once, and who waits for one gets it in the order of asking. */
export interface Semaphore {
  /** Resolves once a permit is held; every one is to be released, once. */
  acquire(): Promise<void>;
  release(): void;
  /** Does the work with a permit, however it ends. */
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

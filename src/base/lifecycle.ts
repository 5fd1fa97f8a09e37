/**
 * What lives and stops. A role is started by a function that returns one of these; stop() resolves once everything in
 * flight has finished or been handed back, and is safe to call twice.
 */

export interface Running {
  stop(): Promise<void>;
}

/** Stops in the reverse order of starting; the first error is thrown after all had their turn. */
export async function stopAll(parts: Running[]): Promise<void> {
  let first: unknown;
  for (const part of [...parts].reverse()) {
    try {
      await part.stop();
    } catch (error) {
      first ??= error;
    }
  }
  if (first !== undefined) throw first;
}

/**
 * For modules that only some need: answers what `load` resolved to at the first call; a load that failed is tried again. An import()
 * costs 20 us each time, also of what is there.
 */
export function loadedOnce<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

/** Waits for the work, but not beyond a moment of performance.now(). */
export async function within(work: Promise<unknown>, deadline: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, deadline - performance.now()));
  });
  await Promise.race([work, end]);
  clearTimeout(timer);
}

/**
 * The lifecycle of roles. The function that starts a role returns one of these; stop() resolves once everything in flight has finished or
 * was returned to the queue, and is safe to call twice.
 */

export interface Running {
  stop(): Promise<void>;
}

/** Stops in reverse order of starting; throws the first error after all parts were stopped. */
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
 * Caches what `load` resolved to on the first call; a failed load is retried. Used for dynamic imports, because an import() costs 20 µs
 * even if the module is loaded.
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

/** Waits for the work, but not longer than until `deadline` (performance.now()). */
export async function within(work: Promise<unknown>, deadline: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, deadline - performance.now()));
  });
  await Promise.race([work, end]);
  clearTimeout(timer);
}

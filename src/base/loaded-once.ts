/** Modules that only some need: loaded at the first call and kept. An import() costs 20 us each time, also of what is there. */

/** Answers what `load` resolved to at the first call; a load that failed is tried again. */
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

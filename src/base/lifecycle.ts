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

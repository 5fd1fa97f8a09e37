/**
 * Waits for a condition instead of a fixed time: polls, and fails with a description of the condition. The timeout only ends tests that
 * fail; on a shared machine a process may be paused for seconds, several times in a test.
 */

/** Polls every few milliseconds at first, and less often in a long wait: many conditions send a request or compare all messages. */
const SHORTEST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** A pause is at most this share of the wait so far. */
const PAUSE_SHARE = 1 / 50;

export async function waitUntil<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs = 60_000,
): Promise<T> {
  const startedAt = performance.now();
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    const waitedMs = performance.now() - startedAt;
    if (waitedMs > timeoutMs) throw new Error(`timed out after ${timeoutMs} ms waiting for: ${what}`);
    const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, waitedMs * PAUSE_SHARE));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

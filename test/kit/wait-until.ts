/**
 * Waits for a condition instead of for a time: polls every few milliseconds and fails with what it was waiting for. The time
 * ends only a test that fails; on a shared machine a process may stand still for seconds, and several times in a test.
 */

export async function waitUntil<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs = 30_000,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > end) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

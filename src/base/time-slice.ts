/**
 * Time slices of the event loop for long work that is made of short pieces: who asks between two pieces goes on at once while
 * the loop has been held for less than 20 ms, and waits for a slice of its own after that. Those who wait get theirs one after
 * the other, with whatever else came in between, so that a hundred long jobs together hold the loop no longer than one.
 */

/** So long may the loop be held. */
export const SLICE_MS = 20;

/** When the first one asked in this round of the loop. */
let beganMs: number | undefined;
const waiting: (() => void)[] = [];

function begin(): void {
  beganMs = performance.now();
  setImmediate(next);
}

function next(): void {
  beganMs = undefined;
  const resume = waiting.shift();
  if (resume === undefined) return;
  begin();
  resume();
}

/** Undefined where the work may go on at once. */
export function timeSlice(): Promise<void> | undefined {
  if (beganMs === undefined) begin();
  else if (waiting.length > 0 || performance.now() - beganMs >= SLICE_MS) {
    return new Promise((resolve) => waiting.push(resolve));
  }
  return undefined;
}

/**
 * Does a piece of work in a slice. Where several ask at the same moment, `await timeSlice()` lets all of them go on before the first
 * has begun; here nothing comes between the question and the work.
 */
export async function inTimeSlice<T>(work: () => T): Promise<T> {
  const wait = timeSlice();
  if (wait !== undefined) await wait;
  return work();
}

/**
 * Yields the loop in the middle of a job: to whatever else came in, and then goes on before jobs that have not begun, so that
 * few are half done at a time.
 */
export function yieldToEventLoop(): Promise<void> {
  if (beganMs === undefined) begin();
  return new Promise((resolve) => waiting.unshift(resolve));
}

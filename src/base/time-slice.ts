/**
 * Time slices of the event loop for long work in short pieces. Between two pieces, work continues immediately if the loop was blocked for
 * less than 20 ms; otherwise it waits for its own slice. Waiting jobs get their slices one after another, with other events in between, so
 * a hundred long jobs together block the loop no longer than one.
 */

/** Maximum time to block the loop. */
export const SLICE_MS = 20;

/** When the first job started in this turn of the loop. */
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

/** Returns undefined if the work can continue immediately. */
export function timeSlice(): Promise<void> | undefined {
  if (beganMs === undefined) begin();
  else if (waiting.length > 0 || performance.now() - beganMs >= SLICE_MS) {
    return new Promise((resolve) => waiting.push(resolve));
  }
  return undefined;
}

/**
 * Runs a piece of work in a slice. If several callers check at the same moment, `await timeSlice()` lets all of them continue before the
 * first has started; here nothing runs between the check and the work.
 */
export async function inTimeSlice<T>(work: () => T): Promise<T> {
  const wait = timeSlice();
  if (wait !== undefined) await wait;
  return work();
}

/**
 * Yields to other events in the middle of a job, and then continues before jobs that have not started, so that few jobs are half done at a
 * time.
 */
export function yieldToEventLoop(): Promise<void> {
  if (beganMs === undefined) begin();
  return new Promise((resolve) => waiting.unshift(resolve));
}

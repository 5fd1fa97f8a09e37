/** Tells by how much the wall clock was set, by comparing it with the monotonic one: leases and schedules follow the former. */
import type { Clock } from './clock.ts';

/** Milliseconds by which the clock was set since the last look, positive for forward; noise of some milliseconds is in it. */
export function watchJumps(clock: Clock): () => number {
  const offset = (): number => clock.now() - performance.now();
  let last = offset();
  return () => {
    const before = last;
    last = offset();
    return last - before;
  };
}

/** Jumps below this are the work of whoever keeps the clock right, and harm nothing. */
export const JUMP_MS = 5_000;

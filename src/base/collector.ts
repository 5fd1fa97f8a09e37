/**
 * V8's garbage collector, asked for where we know better than it does when a collection is worth its time. It is reached
 * through the flag that exposes it, which is taken back at once.
 */
import v8 from 'node:v8';
import vm from 'node:vm';

interface CollectRequest {
  type: 'major' | 'minor';
  execution: 'sync';
  flavor?: 'last-resort';
}

let collect: ((request: CollectRequest) => void) | undefined;

/** Undefined when another thread takes the flag, which is the process's, back at this very moment: this time goes without. */
function expose(): typeof collect {
  v8.setFlagsFromString('--expose-gc');
  try {
    return vm.runInNewContext('typeof gc === "function" ? gc : undefined');
  } finally {
    v8.setFlagsFromString('--no-expose-gc');
  }
}

/**
 * Everything: a pause of some 30 ms at the size this program has after its start. Loading and compiling the program leaves garbage
 * that V8 keeps until something presses; collected once, it returns 20 of 152 MB of resident memory (bench/start-idle.ts).
 */
export function collectGarbage(): void {
  collect ??= expose();
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/**
 * From now on the heap may double before all of it is gone through. V8 lets the 30 MB of this program grow by 8, and counts the buffers
 * that are yet to be thrown away: relaying had it do so three to five times a second, 50 ms of processor time each (docs/explanation/performance.md).
 */
export function letHeapGrow(): void {
  v8.setFlagsFromString('--heap-growing-percent=100');
}

const YOUNG_BYTES = 4 * 1024 * 1024;
let discardedBytes = 0;

/**
 * Counts buffers of sockets that are garbage soon, and has what is young collected now and then: well below a millisecond. V8 lets
 * them pile up until it has to go through the whole heap: 29 MB of uploads cost 85 to 160 ms of processor time without this,
 * and 75 with it (bench/upload.ts).
 */
export function discardSoon(bytes: number): void {
  discardedBytes += bytes;
  if (discardedBytes < YOUNG_BYTES) return;
  discardedBytes = 0;
  collect ??= expose();
  collect?.({ type: 'minor', execution: 'sync' });
}

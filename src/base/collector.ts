/**
 * Triggers V8's garbage collector when Postrider knows better than V8 that a collection is worthwhile. It is reached through the flag that
 * exposes it, which is reset immediately.
 */
import v8 from 'node:v8';
import vm from 'node:vm';

interface CollectRequest {
  type: 'major' | 'minor';
  execution: 'sync';
  flavor?: 'last-resort';
}

let collect: ((request: CollectRequest) => void) | undefined;

/** Returns undefined if another thread is resetting the process-wide flag at this moment; this collection is then skipped. */
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
 * Lets the heap double before a full collection. By default V8 lets the 30 MB of this program grow by 8 MB and counts buffers that will
 * soon be garbage, so relaying caused three to five full collections a second, 50 ms of CPU time each (docs/explanation/performance.md).
 */
export function letHeapGrow(): void {
  v8.setFlagsFromString('--heap-growing-percent=100');
}

const YOUNG_BYTES = 4 * 1024 * 1024;
let discardedBytes = 0;

/**
 * Counts buffers of sockets that will soon be garbage, and occasionally collects the young generation, which takes well below a
 * millisecond. V8 would let them accumulate until a full collection is needed (docs/explanation/performance.md).
 */
export function discardSoon(bytes: number): void {
  discardedBytes += bytes;
  if (discardedBytes < YOUNG_BYTES) return;
  discardedBytes = 0;
  collect ??= expose();
  collect?.({ type: 'minor', execution: 'sync' });
}

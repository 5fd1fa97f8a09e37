/**
 * V8's garbage collector, asked for where we know better than it does when a collection is worth its time. It is reached
 * through the flag that exposes it, which is taken back at once.
 */
import v8 from 'node:v8';
import vm from 'node:vm';

interface Request {
  type: 'major' | 'minor';
  execution: 'sync';
  flavor?: 'last-resort';
}

let exposed: ((request: Request) => void) | undefined;

function collect(request: Request): void {
  exposed ??= expose();
  exposed?.(request);
}

/** Undefined when another thread takes the flag, which is the process's, back at this very moment: this time goes without. */
function expose(): ((request: Request) => void) | undefined {
  v8.setFlagsFromString('--expose-gc');
  try {
    return vm.runInNewContext('typeof gc === "function" ? gc : undefined') as typeof exposed;
  } finally {
    v8.setFlagsFromString('--no-expose-gc');
  }
}

/** Everything, and the memory goes back to the system: a pause of some 30 ms at the size this program has. */
export function collectAll(): void {
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/** What was made since the last collection: well below a millisecond. */
export function collectYoung(): void {
  collect({ type: 'minor', execution: 'sync' });
}

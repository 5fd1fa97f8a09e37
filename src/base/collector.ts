/**
 * Asks V8 for a collection. Loading and compiling the program leaves garbage that V8 keeps until something presses; collected
 * once, soon after the start, it returns 20 of 152 MB of resident memory to the system (bench/start-idle.ts).
 */
import v8 from 'node:v8';
import vm from 'node:vm';

/** A pause of some 30 ms at the size this program has after its start. */
export function collectGarbage(): void {
  v8.setFlagsFromString('--expose-gc');
  try {
    // Absent when another thread takes the flag, which is the process's, back at this very moment: this time goes without.
    const collect = vm.runInNewContext('typeof gc === "function" ? gc : undefined');
    collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  } finally {
    v8.setFlagsFromString('--no-expose-gc');
  }
}

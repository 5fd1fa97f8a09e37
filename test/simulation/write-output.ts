/** Output of a simulated scenario, written synchronously: the event loop of the process belongs to its scenarios. */
import { writeSync } from 'node:fs';

const STDOUT = 1;
const waiting = new Int32Array(new SharedArrayBuffer(4));

/** Writes a line to stdout. Waits while the pipe is full: a write to a full pipe, or a part of it, is refused with EAGAIN. */
export function writeLine(line: string): void {
  let left = Buffer.from(`${line}\n`);
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(STDOUT, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(waiting, 0, 0, 5);
    }
  }
}

/**
 * Loading and compiling the program leaves garbage that V8 keeps until something presses. Collected once, soon after the
 * start, it gives 20 of 152 MB of resident memory back (bench/start-idle.ts), for a pause of some 30 ms before traffic
 * has grown.
 */
import { collectAll } from '../base/collector.ts';

export function giveBackMemory(): void {
  collectAll();
}

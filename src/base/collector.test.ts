import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { collectGarbage, discardSoon } from './collector.ts';

/** Creates garbage in pieces of the size of a socket read. */
function makeGarbage(pieces: number): number {
  let bytes = 0;
  for (let i = 0; i < pieces; i += 1) bytes += Buffer.allocUnsafeSlow(64 * 1024).length;
  return bytes;
}

test('garbage is collected, and the flag that exposes the collector is reset', async () => {
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  const made = makeGarbage(64);
  assert.ok(process.memoryUsage().arrayBuffers >= before + made / 2, 'control: it has not been collected yet');
  discardSoon(made);
  // The memory is freed by another thread.
  await waitUntil('the garbage to be collected', () => process.memoryUsage().arrayBuffers < before + made / 4);
  assert.equal((globalThis as { gc?: unknown }).gc, undefined);
});

/** Removing unreferenced blobs in the background: concurrency, failures, and what a stop leaves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Log, silentLog } from '../../base/log.ts';
import type { Blobs } from './blobs.ts';
import { createBlobRemover } from './remove.ts';

const keys = (count: number): string[] => Array.from({ length: count }, (_, index) => `aa/${index}`);
const blobsThat = (remove: Blobs['remove']): Blobs => ({ remove }) as unknown as Blobs;

test('removes at most eight blobs at once, logs failures, and continues', async () => {
  const removed: string[] = [];
  const warned: unknown[] = [];
  let running = 0;
  let most = 0;
  const blobs = blobsThat(async (key) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    if (key === 'aa/7') throw new Error('away');
    removed.push(key);
  });
  const log: Log = { ...silentLog, warn: (facts: object) => void warned.push(facts) };
  const remover = createBlobRemover({ blobs, log });
  await remover.idle();
  remover.add(keys(30));
  remover.add(['bb/1']);
  await remover.idle();
  assert.equal(most, 8);
  assert.deepEqual(removed.sort(), [...keys(30).filter((key) => key !== 'aa/7'), 'bb/1'].sort());
  assert.deepEqual(warned, [{ blobKey: 'aa/7', error: 'away' }]);
});

test('the removal queue is bounded and dropped when abandoned', async () => {
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  let asked = 0;
  const left: unknown[] = [];
  const log: Log = { ...silentLog, warn: (facts: object) => void left.push(facts) };
  const blobs = blobsThat(() => {
    asked += 1;
    return gate;
  });
  const remover = createBlobRemover({ blobs, log });
  remover.add(keys(20_000));
  remover.add(keys(100));
  assert.deepEqual(left, [{ left: 92 }], 'eight of the first batch are in progress');
  remover.abandon();
  release();
  await remover.idle();
  assert.equal(asked, 8);
});

/** Permits: limited, granted in order, and released by failing work. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { createSemaphore } from './semaphore.ts';

test('permits are granted in order of request', async () => {
  const semaphore = createSemaphore(2);
  const order: number[] = [];
  for (let i = 0; i < 5; i += 1) void semaphore.acquire().then(() => order.push(i));
  await setImmediate();
  assert.deepEqual(order, [0, 1]);
  semaphore.release();
  await setImmediate();
  assert.deepEqual(order, [0, 1, 2]);
  semaphore.release();
  semaphore.release();
  await setImmediate();
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
});

test('failed work releases its permit, and the limit is never exceeded', async () => {
  const semaphore = createSemaphore(3);
  let running = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await setImmediate();
    running -= 1;
    throw new Error('it failed');
  };
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => semaphore.run(work)));
  assert.ok(results.every((one) => one.status === 'rejected'));
  assert.equal(most, 3);
  assert.equal(await semaphore.run(async () => 'free'), 'free');
});

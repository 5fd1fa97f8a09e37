/** Searches of several accounts: one at a time, in turns, and one that fails is nobody else's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSearches } from './searches.ts';

test('one search runs at a time, and the accounts take turns', async () => {
  const searches = createSearches();
  const order: string[] = [];
  let running = 0;
  const search = (name: string) => async (): Promise<string> => {
    running += 1;
    assert.equal(running, 1);
    order.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    if (name === 'a2') throw new Error('away');
    return name;
  };
  const asked = ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'].map((name) => searches.run(name[0]!, search(name)));
  const answers = await Promise.allSettled(asked);
  assert.deepEqual(order, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
  assert.deepEqual(
    answers.map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason))),
    ['a1', 'Error: away', 'a3', 'b1', 'c1', 'b2'],
  );
  assert.equal(await searches.run('a', search('a4')), 'a4');
});

/** Searches of several accounts: one at a time, in turns and in parts, and one that fails is nobody else's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSearches, type Search } from './searches.ts';

test('one search runs at a time, and the accounts take turns', async () => {
  const searches = createSearches();
  const order: string[] = [];
  let running = 0;
  const search = (name: string): Search<string, number> => ({
    ...{ accountId: name[0]!, limit: 1, from: null, signal: new AbortController().signal },
    endOf: async () => null,
    read: async () => {
      running += 1;
      assert.equal(running, 1);
      order.push(name);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      if (name === 'a2') throw new Error('away');
      return [name];
    },
  });
  const asked = ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'].map((name) => searches.run(search(name)));
  const answers = await Promise.allSettled(asked);
  assert.deepEqual(order, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
  assert.deepEqual(
    answers.map((one) => (one.status === 'fulfilled' ? one.value[0] : String(one.reason))),
    ['a1', 'Error: away', 'a3', 'b1', 'c1', 'b2'],
  );
  assert.deepEqual(await searches.run(search('a4')), ['a4']);
});

/** The numbers 1 to 10, of which those divisible by three are found. */
function numbers(limit: number, reads: string[], controller = new AbortController()): Search<number, number> {
  const all = Array.from({ length: 10 }, (_, index) => index + 1);
  return {
    ...{ accountId: 'a', limit, from: null, signal: controller.signal },
    endOf: async (from, rows) => all[(from ?? 0) + rows - 1] ?? null,
    read: async ({ from, through, limit: wanted }) => {
      reads.push(`${(from ?? 0) + 1}-${through ?? ''}`);
      if (reads.length === 3) controller.abort();
      const part = all.filter((one) => one > (from ?? 0) && one <= (through ?? 10) && one % 3 === 0);
      return part.slice(0, wanted);
    },
  };
}

test('a search reads part by part, no further than it has to, and stops when its client has left', async () => {
  const searches = createSearches({ partRows: 4 });
  const [some, all, left]: string[][] = [[], [], []];
  assert.deepEqual(await searches.run(numbers(2, some!)), [3, 6]);
  assert.deepEqual(some, ['1-4', '5-8']);
  assert.deepEqual(await searches.run(numbers(9, all!)), [3, 6, 9]);
  assert.deepEqual(all, ['1-4', '5-8', '9-']);
  assert.deepEqual(await createSearches({ partRows: 1 }).run(numbers(9, left!)), []);
  assert.equal(left!.length, 3);
});

/** Searches of several accounts: one part at a time, in round-robin order, answered in time, and isolated from each other's failures. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSearches, type Search } from './searches.ts';

test('one search runs at a time, alternating between accounts', async () => {
  const searches = createSearches();
  const order: string[] = [];
  let running = 0;
  const search = (name: string): Search<string, number> => ({
    accountId: name[0]!,
    limit: 1,
    from: null,
    signal: new AbortController().signal,
    read: async () => {
      running += 1;
      assert.equal(running, 1);
      order.push(name);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      if (name === 'a2') throw new Error('away');
      return { found: [name], end: null };
    },
  });
  const asked = ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'].map((name) => searches.run(search(name)));
  const answers = await Promise.allSettled(asked);
  assert.deepEqual(order, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
  assert.deepEqual(
    answers.map((one) => (one.status === 'fulfilled' ? one.value.rows[0] : String(one.reason))),
    ['a1', 'Error: away', 'a3', 'b1', 'c1', 'b2'],
  );
  assert.deepEqual(await searches.run(search('a4')), { rows: ['a4'], stoppedAt: null });
});

interface Numbers {
  accountId?: string;
  from?: number | null;
  limit: number;
  /** Numbers divisible by this are found. */
  divisor?: number;
  /** Records the parts that are read. */
  reads: string[];
  onRead?: () => void;
  signal?: AbortSignal;
}

/** A search through the numbers 1 to 10. */
function numbers(options: Numbers): Search<number, number> {
  const { accountId = 'a', from = null, limit, divisor = 3, reads, onRead } = options;
  return {
    accountId,
    limit,
    from,
    signal: options.signal ?? new AbortController().signal,
    read: async ({ from, rows, limit: wanted }) => {
      const first = (from ?? 0) + 1;
      const last = first + rows - 1;
      reads.push(`${accountId}${first}-${last}`);
      onRead?.();
      const all = Array.from({ length: 10 }, (_, index) => index + 1);
      const found = all.filter((one) => one >= first && one <= last && one % divisor === 0).slice(0, wanted);
      return { found, end: last > 10 ? null : last };
    },
  };
}

test('a search reads as few parts as necessary and stops when its client disconnects', async () => {
  const searches = createSearches({ firstRows: 1 });
  const [some, all, left]: string[][] = [[], [], []];
  assert.deepEqual(await searches.run(numbers({ limit: 1, reads: some! })), { rows: [3], stoppedAt: null });
  assert.deepEqual(some, ['a1-1', 'a2-3']);
  assert.deepEqual(await searches.run(numbers({ limit: 9, reads: all! })), { rows: [3, 6, 9], stoppedAt: null });
  assert.deepEqual(all, ['a1-1', 'a2-3', 'a4-7', 'a8-15']);
  const controller = new AbortController();
  const leaving = { limit: 9, reads: left!, onRead: () => controller.abort(), signal: controller.signal };
  assert.deepEqual((await searches.run(numbers(leaving))).rows, []);
  assert.equal(left!.length, 1);
});

test('a search over its time limit returns its position, and the next one continues there', async () => {
  const searches = createSearches({ firstRows: 2, answerMs: 0 });
  const reads: string[] = [];
  const found: number[] = [];
  let from: number | null = null;
  do {
    const page: { rows: number[]; stoppedAt: number | null } = await searches.run(numbers({ limit: 9, from, reads }));
    found.push(...page.rows);
    from = page.stoppedAt;
  } while (from !== null);
  assert.deepEqual(found, [3, 6, 9]);
  assert.deepEqual(reads, ['a1-2', 'a3-4', 'a5-6', 'a7-8', 'a9-10', 'a11-12']);
});

test('a long search yields to others after each part', async () => {
  const searches = createSearches({ firstRows: 1 });
  const reads: string[] = [];
  const nothing = { limit: 1, divisor: 11, reads };
  await Promise.all(['a', 'b', 'c'].map((accountId) => searches.run(numbers({ ...nothing, accountId }))));
  assert.deepEqual(reads.map((one) => one[0]).join(''), 'aabcabcabcbc');
});

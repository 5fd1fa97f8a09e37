/** Which successful requests are recorded: all while they are few, a fair sample while they are many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSampling, type Sampling } from './sampling.ts';

/** Makes the requests of a second; returns how many of each account are recorded. */
function second(sampling: Sampling, requests: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(requests).map(([accountId, count]) => [
      accountId,
      Array.from({ length: count }, () => sampling.admits(accountId)).filter(Boolean).length,
    ]),
  );
}

test('records every request while all together are within the limit', () => {
  const sampling = createSampling(100);
  for (let seconds = 0; seconds < 3; seconds += 1) {
    assert.deepEqual(second(sampling, { a: 90, b: 10 }), { a: 90, b: 10 });
    sampling.tick(false);
  }
});

test('a flood of one account is sampled, and does not reduce the records of the others', () => {
  const sampling = createSampling(100);
  second(sampling, { flood: 10_000, a: 20, b: 30 });
  sampling.tick(false);
  assert.deepEqual(second(sampling, { flood: 10_000, a: 20, b: 30 }), { flood: 50, a: 20, b: 30 });
  sampling.tick(false);
  second(sampling, { flood: 40 });
  sampling.tick(false);
  assert.deepEqual(second(sampling, { flood: 40 }), { flood: 40 }, 'after the flood, every request is recorded');
});

test('an overloaded node records one request in a hundred until the overload ends', () => {
  const sampling = createSampling(1_000);
  sampling.tick(true);
  assert.deepEqual(second(sampling, { a: 200, b: 99 }), { a: 2, b: 0 });
  sampling.tick(false);
  assert.deepEqual(second(sampling, { a: 200, b: 99 }), { a: 200, b: 99 });
});

test('more accounts than records in a second are each recorded at times', () => {
  const sampling = createSampling(10);
  const all = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`acc_${index}`, 4]));
  second(sampling, all);
  sampling.tick(false);
  const recorded = Object.values(second(sampling, all));
  assert.ok(
    recorded.every((count) => count === 1),
    `${recorded}`,
  );
});

/** Age, coalescing, background refresh, and limits of the cache, with a manual clock. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { createFreshCache } from './fresh-cache.ts';

function setup(limit = 10, absentLimit = 10) {
  const clock = fakeClock();
  const source = new Map<string, number>();
  const reads: string[] = [];
  const cache = createFreshCache<string, number>({
    clock,
    maxAgeMs: 700,
    limit,
    absentLimit,
    read: async (key) => {
      reads.push(key);
      return source.get(key);
    },
  });
  return { clock, source, reads, get: (key: string) => cache.get(key, key), cache };
}

/** A cache whose reads complete when the test resolves them. */
function heldReads() {
  const clock = fakeClock();
  const answers: ((value: string) => void)[] = [];
  const cache = createFreshCache<null, string>({
    clock,
    maxAgeMs: 700,
    limit: 10,
    absentLimit: 10,
    read: () => new Promise((resolve) => answers.push(resolve)),
  });
  return { clock, cache, answers };
}

test('a hit is synchronous, and never older than the maximum age', async () => {
  const { clock, source, reads, get } = setup();
  source.set('a', 1);
  assert.equal(await get('a'), 1);
  source.set('a', 2);
  assert.equal(get('a'), 1);
  clock.advance(701);
  assert.equal(await get('a'), 2);
  clock.advance(-5_000);
  source.set('a', 3);
  assert.equal(await get('a'), 3);
  assert.equal(reads.length, 3);
});

test('past half its age a value is still returned and read again in the background', async () => {
  const { clock, source, reads, get } = setup();
  source.set('a', 1);
  await get('a');
  source.set('a', 2);
  clock.advance(400);
  assert.equal(get('a'), 1);
  await new Promise(setImmediate);
  assert.equal(get('a'), 2);
  assert.equal(reads.length, 2);
});

test('concurrent reads of one key are one read', async () => {
  const { source, reads, get } = setup();
  source.set('a', 1);
  assert.deepEqual(await Promise.all([get('a'), get('a'), get('a')]), [1, 1, 1]);
  assert.equal(reads.length, 1);
});

test('a read that is too old is not joined and does not replace a newer value', async () => {
  const { clock, cache, answers } = heldReads();
  const first = cache.get('session', null);
  clock.advance(500);
  const joined = cache.get('session', null);
  clock.advance(500);
  const second = cache.get('session', null);
  assert.equal(answers.length, 2);
  answers[1]!('revoked');
  assert.equal(await second, 'revoked');
  answers[0]!('valid');
  assert.deepEqual(await Promise.all([first, joined]), ['valid', 'valid']);
  assert.equal(cache.get('session', null), 'revoked');
});

test('a flood of missing keys does not evict known values', async () => {
  const { source, reads, get } = setup(2, 2);
  source.set('a', 1);
  await get('a');
  for (let i = 0; i < 50; i += 1) await get(`x${i}`);
  reads.length = 0;
  assert.equal(get('a'), 1);
  assert.equal(get('x49'), undefined);
  assert.equal(reads.length, 0);
  await get('x0');
  assert.deepEqual(reads, ['x0']);
});

test('the oldest value is evicted first, and an explicit eviction causes a new read', async () => {
  const { source, reads, get, cache } = setup(2);
  for (const key of ['a', 'b', 'c']) {
    source.set(key, 1);
    await get(key);
  }
  reads.length = 0;
  assert.equal(get('c'), 1);
  await get('a');
  cache.forget('c');
  await get('c');
  assert.deepEqual(reads, ['a', 'c']);
});

test('a failed read rejects and is not cached', async () => {
  const clock = fakeClock();
  let fail = true;
  const cache = createFreshCache<null, number>({
    clock,
    maxAgeMs: 700,
    limit: 2,
    absentLimit: 0,
    read: async () => {
      if (fail) throw new Error('down');
      return 1;
    },
  });
  await assert.rejects(async () => cache.get('a', null), /down/);
  fail = false;
  assert.equal(await cache.get('a', null), 1);
});

test('an evicted value is not restored by a read that started before', async () => {
  const waiting: ((value: number) => void)[] = [];
  const cache = createFreshCache<null, number>({
    clock: fakeClock(),
    maxAgeMs: 700,
    limit: 10,
    absentLimit: 10,
    read: () => new Promise((resolve) => waiting.push(resolve)),
  });
  const early = cache.get('a', null);
  cache.evictWhere(() => false);
  const late = cache.get('a', null);
  waiting[1]?.(2);
  assert.equal(await late, 2);
  waiting[0]?.(1);
  assert.equal(await early, 1);
  assert.equal(cache.get('a', null), 2);
  cache.evictWhere((value) => value === 1);
  assert.equal(cache.get('a', null), 2);
  cache.evictWhere((value) => value === 2);
  assert.ok(cache.get('a', null) instanceof Promise);
});

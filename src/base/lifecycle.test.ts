import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadedOnce } from './lifecycle.ts';

test('a load runs once, and a failed load is retried', async () => {
  let loads = 0;
  const load = loadedOnce(async () => {
    loads += 1;
    if (loads === 1) throw new Error('not there');
    return loads;
  });
  await Promise.all([assert.rejects(load(), /not there/), assert.rejects(load(), /not there/)]);
  assert.equal(loads, 1);
  assert.deepEqual(await Promise.all([load(), load()]), [2, 2]);
  assert.equal(await load(), 2);
});

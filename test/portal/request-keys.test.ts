/** The keys of the rows of the log of requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysOf } from '../../portal/src/pages/requests/keys.ts';

const entries = (...ids: string[]) => ids.map((requestId) => ({ requestId }));

test('the key of a request stays the same when newer ones arrive and when more are loaded', () => {
  const first = entries('req_3', 'req_2', 'req_2', 'req_1');
  const later = entries('req_5', 'req_4', 'req_3', 'req_2', 'req_2', 'req_1', 'req_0');
  const keys = first.map(keysOf(first));
  assert.deepEqual(later.map(keysOf(later)).slice(2, -1), keys);
  assert.equal(new Set(keys).size, keys.length, 'entries with the same id have different keys');
});

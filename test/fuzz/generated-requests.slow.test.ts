/** Many generated requests to every operation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callEverything } from './generated-requests.ts';

test('no generated request of many is answered with 5xx, and every answer is as the document says', async (t) => {
  const seed = Number(process.env.REQUESTS_FUZZ_SEED ?? 20_261_128);
  t.diagnostic(`seed ${seed}`);
  const { statuses, problems } = await callEverything({ requests: 300, seed });
  assert.deepEqual(problems, [], problems.join('\n\n'));
  const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((all, one) => all + one, 0);
  const all = Object.values(statuses).map(sum);
  t.diagnostic(`${all.reduce((total, one) => total + one, 0)} requests to ${all.length} operations`);
  assert.ok(Math.min(...all) >= 300);
});

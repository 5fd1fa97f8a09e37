/** The vertical scale of charts: round ticks, and no value above the top one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ticksUpTo } from '../../portal/src/parts/chart-scale.ts';

const CASES: [largest: number, kind: 'count' | 'seconds', ticks: number[]][] = [
  [0, 'count', [0, 1]],
  [1, 'count', [0, 1]],
  [3, 'count', [0, 1, 2, 3]],
  [7, 'count', [0, 2, 4, 6, 8]],
  [1_017, 'count', [0, 500, 1_000, 1_500]],
  [0.054, 'seconds', [0, 0.02, 0.04, 0.06]],
  [0.3, 'seconds', [0, 0.1, 0.2, 0.3]],
  [42, 'seconds', [0, 10, 20, 30, 40, 50]],
  [100, 'seconds', [0, 30, 60, 90, 120]],
  [400, 'seconds', [0, 120, 240, 360, 480]],
  [5_000, 'seconds', [0, 1_800, 3_600, 5_400]],
  [259_200, 'seconds', [0, 86_400, 172_800, 259_200]],
];

for (const [largest, kind, ticks] of CASES)
  test(`${kind} up to ${largest}`, () => assert.deepEqual(ticksUpTo(largest, kind), ticks));

test('no value is above the top tick, and there are at most six ticks', () => {
  for (let value = 0.0005; value < 1e9; value *= 1.37)
    for (const kind of ['count', 'seconds'] as const) {
      const ticks = ticksUpTo(value, kind);
      assert.ok(ticks.at(-1)! >= value && ticks.length <= 6, `${kind} ${value}: ${ticks}`);
    }
});

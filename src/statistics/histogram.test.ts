import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Histogram, merge, observe, packHistogram, percentile, unpackHistogram } from './histogram.ts';

function histogramOf(times: readonly number[]): Histogram {
  const histogram: Histogram = new Map();
  for (const ms of times) observe(histogram, ms);
  return histogram;
}

const times = fc.array(fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 300_000_000 })), {
  minLength: 1,
  maxLength: 400,
});

test('every percentile is within 2% of the exact one for any values', () => {
  fc.assert(
    fc.property(times, fc.double({ min: 0.001, max: 1, noNaN: true }), (list, share) => {
      const exact = [...list].sort((a, b) => a - b)[Math.ceil(share * list.length) - 1]!;
      const found = percentile(histogramOf(list), share)!;
      assert.ok(Math.abs(found - exact) <= exact * 0.0200001, `${found} instead of ${exact}`);
    }),
    { numRuns: 500 },
  );
});

test('merged histograms equal one of all values, even after storage', () => {
  fc.assert(
    fc.property(times, times, (first, second) => {
      const merged = unpackHistogram(packHistogram(histogramOf(first)));
      merge(merged, unpackHistogram(packHistogram(histogramOf(second))));
      const sorted = (histogram: Histogram) => [...histogram].sort(([a], [b]) => a - b);
      assert.deepEqual(sorted(merged), sorted(histogramOf([...first, ...second])));
    }),
  );
});

test('stored histograms are small and keep counts above 32 bits', () => {
  const all = histogramOf(Array.from({ length: 100_000 }, (_, i) => i * 2_592));
  assert.ok(packHistogram(all)!.length < 1_500, String(packHistogram(all)!.length));
  const many: Histogram = new Map([[17, 2 ** 50 + 1]]);
  assert.deepEqual(unpackHistogram(packHistogram(many)), many);
  assert.equal(packHistogram(new Map()), null);
  assert.equal(percentile(unpackHistogram(null), 0.5), null);
});

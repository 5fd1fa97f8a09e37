/** The sums of the statistics page: a period by group, and the period before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { comparedTotals, rateOf } from '../../portal/src/pages/statistics/totals.ts';

const bucket = (start: string, group: string | null, accepted: number, bounced = 0) => ({
  start,
  group,
  accepted,
  delivered: accepted - bounced,
  bounced: { hard: bounced, soft: 0, block: 0 },
  delayed: 0,
  suppressed: 0,
  complained: 0,
  opened: 0,
  clicked: 0,
  unsubscribed: 0,
  deliverySeconds: { p50: null, p95: null },
});

const BUCKETS = [
  bucket('2026-11-18T00:00:00.000Z', 'a', 10, 5),
  bucket('2026-11-19T00:00:00.000Z', 'gone', 4),
  bucket('2026-11-20T00:00:00.000Z', 'a', 6, 3),
  bucket('2026-11-21T00:00:00.000Z', 'a', 2),
  bucket('2026-11-21T00:00:00.000Z', 'b', 20),
  bucket('2026-11-21T00:00:00.000Z', null, 99),
];

test('groups are summed, compared with the period before, and unnamed ones are last', () => {
  const totals = comparedTotals(BUCKETS, '2026-11-20T00:00:00.000Z');
  assert.deepEqual(
    totals.map(({ group, accepted, before }) => [group, accepted, before?.accepted]),
    [
      ['b', 20, undefined],
      ['a', 8, 10],
      [null, 99, undefined],
    ],
  );
  const a = totals[1]!;
  assert.deepEqual([rateOf(a, 'bounceRate'), rateOf(a.before!, 'bounceRate')], [3 / 8, 0.5]);
});

test('without a start all buckets are of the period, and a rate of nothing is undefined', () => {
  assert.deepEqual(
    comparedTotals(BUCKETS, undefined).map(({ group, accepted }) => [group, accepted]),
    [
      ['b', 20],
      ['a', 18],
      ['gone', 4],
      [null, 99],
    ],
  );
  const none = { accepted: 3, delivered: 0, bounced: 0, complained: 0, opened: 0, clicked: 0 };
  assert.equal(rateOf(none, 'deliveryRate'), undefined);
  assert.equal(rateOf(none, 'complaintRate'), undefined);
});

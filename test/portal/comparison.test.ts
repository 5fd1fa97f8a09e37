/** Figures of a period and of the one before it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Counts, growth, periodsOf, pointsBetween, totalsOf } from '../../portal/src/pages/overview/comparison.ts';

const bucket = (accepted: number, delivered: number, [hard, soft, block] = [0, 0, 0], complained = 0): Counts => ({
  accepted,
  delivered,
  bounced: { hard, soft, block },
  complained,
});

test('rates are relative to messages with an outcome, and undefined without any', () => {
  const totals = totalsOf([bucket(10, 6, [1, 0, 1]), bucket(5, 2, [0, 0, 0], 1)]);
  assert.deepEqual(totals, {
    accepted: 15,
    delivered: 8,
    bounced: 2,
    complained: 1,
    deliveryRate: 0.8,
    bounceRate: 0.2,
    complaintRate: 0.125,
  });
  const { deliveryRate, bounceRate, complaintRate } = totalsOf([bucket(3, 0)]);
  assert.deepEqual([deliveryRate, bounceRate, complaintRate], [undefined, undefined, undefined]);
});

test('the previous period has the same length or no buckets', () => {
  const buckets = [1, 2, 3, 4, 5].map((accepted) => bucket(accepted, 0));
  const accepted = (list: readonly Counts[]) => list.map((one) => one.accepted);
  const { shown, before } = periodsOf(buckets, 2);
  assert.deepEqual(
    [accepted(shown), accepted(before)],
    [
      [4, 5],
      [2, 3],
    ],
  );
  assert.deepEqual(periodsOf(buckets, 3).before, []);
  assert.equal(periodsOf(buckets, 9).shown.length, 5);
});

test('differences are in points and percentages, rounded as displayed', () => {
  assert.equal(pointsBetween(0.987, 0.982), 0.5);
  assert.equal(pointsBetween(0.98701, 0.987), 0);
  assert.equal(pointsBetween(0.0012, 0.001, 2), 0.02);
  assert.equal(pointsBetween(undefined, 0.5), undefined);
  assert.equal(growth(150, 100), 0.5);
  assert.equal(growth(0, 100), -1);
  assert.equal(growth(5, 0), undefined);
});

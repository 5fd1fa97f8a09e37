/** Resuming parked rows: the capacity is distributed to all lanes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Schedule } from './schedule.ts';
import { WINDOW_LIMITS, Window } from './window.ts';

function emptyWindow(): Window {
  return new Window({
    limits: WINDOW_LIMITS,
    schedule: Object.create(Schedule.prototype) as Schedule,
    registry: { isProven: () => false, pauseOf: () => undefined },
    sets: { lookUp: () => undefined, destinationOf: (domain) => `mx.${domain}` },
    routing: { route: { kind: 'mx' } },
  });
}

const total = (grants: readonly { limit: number }[]): number => grants.reduce((sum, { limit }) => sum + limit, 0);

test('a thousand lanes of one row are claimed by the hundred, within the account limit', () => {
  const lanes = Array.from({ length: 1_000 }, (_, i) => `acc_a/d${i}.example`);
  const grants = emptyWindow().resumable(lanes, 0);
  assert.equal(grants.length, WINDOW_LIMITS.account * 0.9);
  assert.equal(total(grants), grants.length);
});

test('a single lane gets everything a lane can have', () => {
  assert.deepEqual(emptyWindow().resumable(['acc_a/shop.example'], 0), [
    { lane: 'acc_a/shop.example', limit: WINDOW_LIMITS.lane },
  ]);
});

test('every lane gets one row before any lane gets more', () => {
  const lanes = Array.from({ length: 40 }, (_, i) => `acc_a/d${i}.example`);
  assert.equal(emptyWindow().resumable(lanes, 0).length, 40);
});

test('the account limit applies to all of its lanes together', () => {
  const lanes = ['acc_a', 'acc_b'].flatMap((account) =>
    Array.from({ length: 8 }, (_, i) => `${account}/d${i}.example`),
  );
  const grants = emptyWindow().resumable(lanes, 0);
  const ofAccount = (account: string): number => total(grants.filter(({ lane }) => lane.startsWith(account)));
  assert.ok(ofAccount('acc_a') <= WINDOW_LIMITS.account, `${ofAccount('acc_a')}`);
  assert.ok(ofAccount('acc_b') >= 8);
  assert.ok(total(grants) <= WINDOW_LIMITS.jobs * 0.75);
});

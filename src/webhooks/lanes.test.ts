/** The lanes alone: turns, limits, and what a slow lane may still start. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EndpointLanes } from './lanes.ts';

const LIMITS = { inFlight: 6, slowInFlight: 4, perLane: 3, perBatchLane: 2, perSlowLane: 1, window: 5, slowWindow: 2 };

function fill(lanes: EndpointLanes<string>, laneId: string, count: number): number {
  let taken = 0;
  for (let i = 0; i < count; i += 1) if (lanes.admit(laneId, `${laneId}${i}`)) taken += 1;
  return taken;
}

function startAll(lanes: EndpointLanes<string>) {
  const started = [];
  for (let next = lanes.next(); next; next = lanes.next()) started.push(next);
  return started;
}

test('lanes alternate within their own limit and the common limit', () => {
  const lanes = new EndpointLanes<string>(LIMITS);
  assert.equal(fill(lanes, 'a', 9), 5);
  fill(lanes, 'b', 4);
  fill(lanes, 'c', 2);
  const started = startAll(lanes);
  assert.deepEqual(
    started.map((one) => one.job),
    ['a0', 'b0', 'c0', 'a1', 'b1', 'c1'],
  );
  assert.equal(lanes.inFlight, 6);
  lanes.ended(started[2]!.lane, false);
  assert.equal(lanes.next()?.job, 'a2');
  lanes.ended(started[5]!.lane, false);
  // Lane a has three in flight; only b may continue.
  assert.equal(lanes.next()?.job, 'b2');
});

test('a slow lane returns part of the common budget and evicts the excess', () => {
  const lanes = new EndpointLanes<string>({ ...LIMITS, inFlight: 3 });
  fill(lanes, 'dead', 5);
  const hanging = startAll(lanes);
  fill(lanes, 'live', 3);
  assert.equal(lanes.next(), undefined);
  assert.deepEqual(lanes.slowed(hanging[0]!.lane), ['dead3', 'dead4']);
  assert.deepEqual(
    startAll(lanes).map((one) => one.job),
    ['live0', 'live1', 'live2'],
  );
  assert.equal(lanes.admit('dead', 'x'), false);
  assert.equal(lanes.normalRows, 3);
  // Half of the slow budget is used: the slow lane may now have one attempt in flight, and has three.
  lanes.ended(hanging[0]!.lane, true);
  lanes.ended(hanging[1]!.lane, true);
  assert.equal(lanes.admit('dead', 'y'), true);
  lanes.ended(hanging[2]!.lane, true);
  assert.equal(lanes.next()?.job, 'y');
});

test('a fast response resets a lane to normal', () => {
  const lanes = new EndpointLanes<string>(LIMITS);
  fill(lanes, 'a', 2);
  const [one, two] = startAll(lanes);
  lanes.slowed(one!.lane);
  assert.equal(lanes.resumable('a'), 0);
  lanes.ended(one!.lane, true);
  lanes.ended(two!.lane, false);
  assert.equal(lanes.resumable('a'), 5);
  assert.equal(lanes.inFlight, 0);
});

test('lanes whose job is not allowed now are skipped and lose nothing', () => {
  const lanes = new EndpointLanes<string>(LIMITS);
  fill(lanes, 'a', 1);
  fill(lanes, 'b', 1);
  fill(lanes, 'c', 1);
  assert.equal(lanes.next((job) => job === 'c0')?.job, 'c0');
  assert.equal(
    lanes.next(() => false),
    undefined,
  );
  assert.deepEqual(
    startAll(lanes).map((one) => one.job),
    ['a0', 'b0'],
  );
});

test('an allowed lane after any number of others is found in a few calls', () => {
  const lanes = new EndpointLanes<string>(LIMITS);
  for (let i = 0; i < 1_000; i += 1) fill(lanes, `many${i}`, 1);
  fill(lanes, 'other', 1);
  const found = Array.from({ length: 10 }, () => lanes.next((job) => job === 'other0')?.job);
  assert.deepEqual(
    found.filter((job) => job !== undefined),
    ['other0'],
  );
});

test('a lane with batches has few requests in flight, and counts their rows in its window', () => {
  const lanes = new EndpointLanes<string>({ ...LIMITS, window: 10 });
  for (let i = 0; i < 12; i += 1) lanes.admit('a', `a${i}`, { first: false, maxBatch: 3 });
  const batch = () => {
    const { lane, job } = lanes.next()!;
    return { lane, jobs: [job, lanes.join(lane, () => true), lanes.join(lane, (next) => next !== 'a5')] };
  };
  const first = batch();
  assert.deepEqual(first.jobs, ['a0', 'a1', 'a2']);
  assert.deepEqual(batch().jobs, ['a3', 'a4', undefined]);
  assert.equal(lanes.next(), undefined);
  assert.equal(lanes.inFlight, 2);
  assert.equal(lanes.normalRows, 10);
  assert.equal(lanes.admit('a', 'full', { first: false, maxBatch: 3 }), false);
  lanes.ended(first.lane, false, 3);
  assert.equal(lanes.normalRows, 7);
  assert.equal(lanes.admit('a', 'a10', { first: false, maxBatch: 3 }), true);
  assert.equal(lanes.next()?.job, 'a5');
});

/** Lanes in round-robin order: order within a lane, alternation among lanes, lanes on hold, and removal from any position. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lanes } from './lanes.ts';

const ANY = (): boolean => true;

function lanesWith(counts: Record<string, number>): Lanes<string> {
  const lanes = new Lanes<string>();
  for (const [lane, count] of Object.entries(counts)) {
    for (let i = 0; i < count; i += 1) lanes.add(lane, `${lane}${i}`);
  }
  return lanes;
}

function takeAll(lanes: Lanes<string>, accepts: (item: string, lane: string) => boolean = ANY): string[] {
  const items: string[] = [];
  for (let item = lanes.next(accepts); item !== undefined; item = lanes.next(accepts)) items.push(item);
  return items;
}

test('lanes alternate, and each is first in, first out', () => {
  const lanes = lanesWith({ a: 3, b: 1, c: 2 });
  lanes.add('b', 'first of b', { first: true });
  assert.equal(lanes.size, 7);
  assert.deepEqual(takeAll(lanes), ['a0', 'first of b', 'c0', 'a1', 'b0', 'c1', 'a2']);
  assert.equal(lanes.size, 0);
});

test('a lane whose first item is rejected keeps its turn and its order', () => {
  const lanes = lanesWith({ a: 2, b: 2 });
  assert.deepEqual(
    takeAll(lanes, (item) => item !== 'a0'),
    ['b0', 'b1'],
  );
  assert.deepEqual(takeAll(lanes), ['a0', 'a1']);
});

test('with a limit on attempts, rejecting lanes move to the end', () => {
  const lanes = lanesWith({ a: 1, b: 1, c: 1, d: 1, e: 1 });
  const isE = (item: string): boolean => item === 'e0';
  assert.equal(lanes.next(isE, 2), undefined);
  assert.equal(lanes.next(isE, 2), undefined);
  assert.equal(lanes.next(isE, 2), 'e0');
  assert.equal(lanes.next(ANY, 2), 'a0');
});

test('a lane on hold gets no turn until the hold ends, even for later items', () => {
  const lanes = lanesWith({ a: 1, b: 1 });
  lanes.hold('a', true);
  lanes.hold('later', true);
  lanes.add('later', 'later0');
  assert.deepEqual(takeAll(lanes), ['b0']);
  assert.equal(lanes.size, 2);
  lanes.hold('a', false);
  lanes.hold('later', false);
  assert.deepEqual(takeAll(lanes), ['a0', 'later0']);
});

test('items are removed once from the front, the middle, and the end of a lane', () => {
  const lanes = lanesWith({ a: 6, b: 1 });
  for (const item of ['a0', 'a3', 'b0']) assert.ok(lanes.remove('a', item) || lanes.remove('b', item), item);
  assert.equal(lanes.remove('a', 'a3'), false);
  assert.equal(lanes.remove('unknown', 'a1'), false);
  assert.deepEqual(lanes.drain('a', 2), ['a4', 'a5']);
  assert.deepEqual(lanes.items(), ['a1', 'a2']);
  assert.deepEqual([lanes.size, lanes.sizeOf('a'), lanes.sizeOf('b')], [2, 2, 0]);
  assert.deepEqual(lanes.drain('a'), ['a1', 'a2']);
  assert.deepEqual(lanes.drain('a'), []);
  assert.deepEqual(takeAll(lanes), []);
});

test('any order of calls has the same result as with a plain list', () => {
  const lanes = new Lanes<number>();
  const plain = new Map<string, number[]>();
  let seed = 1;
  const random = (below: number): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  const listOf = (lane: string): number[] => plain.get(lane) ?? plain.set(lane, []).get(lane)!;
  for (let i = 0; i < 20_000; i += 1) {
    const lane = `l${random(5)}`;
    const list = listOf(lane);
    const action = random(8);
    if (action < 4) {
      const first = random(4) === 0;
      lanes.add(lane, i, { first });
      if (first) list.unshift(i);
      else list.push(i);
    } else if (action < 6) {
      const next = lanes.next((_, name) => name === lane);
      assert.equal(next, list.shift());
    } else if (action === 6 && list.length > 0) {
      const item = list[random(list.length)]!;
      assert.ok(lanes.remove(lane, item));
      list.splice(list.indexOf(item), 1);
    } else if (action === 7) {
      const count = random(4);
      assert.deepEqual(lanes.drain(lane, count), count === 0 ? [] : list.splice(-count));
    }
    assert.deepEqual(lanes.items(lane), list);
  }
  assert.equal(
    lanes.size,
    [...plain.values()].reduce((sum, { length }) => sum + length, 0),
  );
});

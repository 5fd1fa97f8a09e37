import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActiveSet } from './exchange.ts';

function member(name: string): { name: string; activeIndex: number } {
  return { name, activeIndex: -1 };
}

test('members are unique and can be added and removed in any order', () => {
  const set = new ActiveSet<ReturnType<typeof member>>();
  const [a, b, c] = [member('a'), member('b'), member('c')];
  for (const one of [a, b, c, b]) set.add(one);
  assert.equal(set.size, 3);
  assert.equal(set.delete(a), true);
  assert.equal(set.delete(a), false);
  assert.deepEqual([...set].map((one) => one.name).sort(), ['b', 'c']);
  assert.equal(set.delete(c), true);
  assert.equal(set.delete(b), true);
  assert.equal(set.size, 0);
  assert.equal(set.delete(member('never there')), false);
  set.add(a);
  assert.deepEqual([...set], [a]);
});

test('the current member can be removed during iteration', () => {
  const set = new ActiveSet<ReturnType<typeof member>>();
  for (let i = 0; i < 10; i += 1) set.add(member(String(i)));
  const seen: string[] = [];
  for (const one of set) {
    set.delete(one);
    seen.push(one.name);
  }
  assert.equal(set.size, 0);
  assert.equal(new Set(seen).size, 10);
});

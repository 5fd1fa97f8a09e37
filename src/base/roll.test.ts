import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Roll } from './roll.ts';

function member(name: string): { name: string; rollIndex: number } {
  return { name, rollIndex: -1 };
}

test('members come and go in any order, each once', () => {
  const roll = new Roll<ReturnType<typeof member>>();
  const [a, b, c] = [member('a'), member('b'), member('c')];
  for (const one of [a, b, c, b]) roll.add(one);
  assert.equal(roll.size, 3);
  assert.equal(roll.delete(a), true);
  assert.equal(roll.delete(a), false);
  assert.deepEqual([...roll].map((one) => one.name).sort(), ['b', 'c']);
  assert.equal(roll.delete(c), true);
  assert.equal(roll.delete(b), true);
  assert.equal(roll.size, 0);
  assert.equal(roll.delete(member('never there')), false);
  roll.add(a);
  assert.deepEqual([...roll], [a]);
});

test('whoever is looked at may leave', () => {
  const roll = new Roll<ReturnType<typeof member>>();
  for (let i = 0; i < 10; i += 1) roll.add(member(String(i)));
  const seen: string[] = [];
  for (const one of roll) {
    roll.delete(one);
    seen.push(one.name);
  }
  assert.equal(roll.size, 0);
  assert.equal(new Set(seen).size, 10);
});

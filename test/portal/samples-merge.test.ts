/** Test data of a template that two users have changed at the same time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergedSamples } from '../../portal/src/pages/templates/samples-merge.ts';

const set = (name: string, value: string) => ({ name, values: { value } });
const BASE = [set('a', '1'), set('b', '1')];

test('changes of different sets are both kept, and so are additions and deletions', () => {
  assert.deepEqual(mergedSamples(BASE, [set('a', '2'), set('b', '1')], [set('a', '1'), set('b', '3')]), [
    set('a', '2'),
    set('b', '3'),
  ]);
  const [added, other] = [set('new', '1'), set('other', '1')];
  assert.deepEqual(mergedSamples(BASE, [...BASE, added], [...BASE, other]), [...BASE, other, added]);
  assert.deepEqual(mergedSamples(BASE, [BASE[0]!], [BASE[1]!]), []);
  assert.deepEqual(mergedSamples(BASE, [], BASE), []);
  assert.deepEqual(mergedSamples(BASE, BASE, []), []);
});

test('if both have changed a set, theirs keeps its name, and ours becomes a copy', () => {
  const [ours, theirs] = [[set('a', '2'), set('a (2)', '1')], [set('a', '3')]];
  assert.deepEqual(mergedSamples([set('a', '1')], ours, theirs), [set('a', '3'), set('a (3)', '2'), set('a (2)', '1')]);
  const long = 'x'.repeat(60);
  const [, copy] = mergedSamples([], [set(long, '1')], [set(long, '2')]);
  assert.equal(copy?.name, `${'x'.repeat(56)} (2)`);
  assert.deepEqual(mergedSamples([set('a', '1')], [set('a', '2')], [set('a', '2')]), [set('a', '2')]);
});

test('a set that one has changed and the other has deleted is kept', () => {
  assert.deepEqual(mergedSamples([set('a', '1')], [set('a', '2')], []), [set('a', '2')]);
  assert.deepEqual(mergedSamples([set('a', '1')], [], [set('a', '2')]), [set('a', '2')]);
});

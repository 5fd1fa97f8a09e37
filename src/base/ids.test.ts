/** IDs: format, order, and uniform random characters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId, randomText, timeOfId } from './ids.ts';

test('an ID consists of its prefix, its time, and thirteen random characters, and is unique', () => {
  const nowMs = Date.UTC(2026, 10, 20);
  const ids = Array.from({ length: 20_000 }, (_, index) => newId('msg', nowMs + index));
  for (const [index, id] of ids.entries()) {
    assert.match(id, /^msg_[0-9A-Za-z]{21}$/);
    assert.equal(timeOfId(id), nowMs + index);
  }
  assert.equal(new Set(ids.map((id) => id.slice(-13))).size, ids.length);
  assert.deepEqual([...ids].sort(), ids);
});

test('the first character of the time is 0 until 2081, and its other values stay free for cells', () => {
  const last = Date.UTC(2081, 0, 1);
  assert.match(newId('msg', last), /^msg_0/);
  assert.ok(timeOfId('msg_100000000000000000000')! > last);
});

test('random characters are uniformly distributed in IDs and texts of any length', () => {
  const shown = { ids: new Map<string, number>(), texts: new Map<string, number>() };
  const note = (counts: Map<string, number>, text: string): void => {
    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  };
  for (let i = 0; i < 16_000; i += 1) {
    note(shown.ids, newId('evt', 0).slice(-13));
    note(shown.texts, randomText(13));
  }
  for (const counts of Object.values(shown)) {
    assert.equal(counts.size, 62);
    // 3355 of each are expected, with a deviation of 57.
    for (const [character, count] of counts) assert.ok(Math.abs(count - 3355) < 400, `${character} ${count} times`);
  }
  for (const length of [0, 1, 16, 22, 64]) assert.match(randomText(length), new RegExp(`^[0-9A-Za-z]{${length}}$`));
  assert.throws(() => randomText(65), RangeError);
});

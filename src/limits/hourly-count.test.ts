/** The count of an account per hour, with a manual clock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { createHourlyCount } from './limits.ts';

const HOUR_MS = 3_600_000;

test('an account has a separate count for each hour', () => {
  const clock = fakeClock();
  clock.advance(HOUR_MS - (clock.now() % HOUR_MS));
  let share = 1;
  const hourly = createHourlyCount({ clock, share: () => share });
  for (const has of [0, 1, 2, 3]) {
    assert.equal(hourly.isReached('acc_1', 4), false, String(has));
    hourly.add('acc_1');
  }
  assert.equal(hourly.isReached('acc_1', 4), true);
  assert.equal(hourly.isReached('acc_1', 5), false, 'an operator allows one more');
  assert.equal(hourly.isReached('acc_2', 4), false);
  assert.equal(hourly.isReached('acc_2', 0), true, 'none allowed');
  share = 0.25;
  assert.equal(hourly.isReached('acc_1', 16), true, 'this process has a quarter of the limit');
  assert.equal(hourly.isReached('acc_1', 20), false);
  assert.equal(hourly.isReached('acc_2', 1), false, 'at least one is allowed');
  clock.advance(HOUR_MS - 1);
  assert.equal(hourly.isReached('acc_1', 4), true);
  clock.advance(1);
  assert.equal(hourly.isReached('acc_1', 4), false);
});

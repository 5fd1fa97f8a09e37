/** The limit counts CPU time, not waiting time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTimeLimit, RENDER_LIMIT_MS } from './context.ts';

test("only the thread's CPU time counts toward the limit", () => {
  let workedMs = 5_000;
  const limit = createTimeLimit(0, () => workedMs);
  limit.check(1);
  limit.check(60_000);
  workedMs += RENDER_LIMIT_MS / 2;
  limit.check(120_000);
  workedMs += 1;
  assert.throws(() => limit.check(120_001), /limit exceeded/);
});

test('CPU time is not read before half of the time has passed', () => {
  const limit = createTimeLimit(1_000, () => assert.fail('asked'));
  limit.check(1_000 + RENDER_LIMIT_MS / 2);
});

test('real work stops at about the limit', () => {
  const startedMs = performance.now();
  const limit = createTimeLimit(startedMs);
  assert.throws(() => {
    for (;;) limit.check(performance.now());
  }, /limit exceeded/);
  assert.ok(performance.now() - startedMs >= RENDER_LIMIT_MS / 2);
});

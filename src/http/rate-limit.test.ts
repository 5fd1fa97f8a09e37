/** A process grants its share of a limit, follows a changing share, and never grants nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRateLimiter } from './rate-limit.ts';

/** Requests granted in this many seconds to a client that makes a thousand requests per second. */
function grantedIn(limiter: ReturnType<typeof createRateLimiter>, fromMs: number, seconds: number): number {
  let granted = 0;
  for (let ms = 0; ms < seconds * 1000; ms += 1) if (!limiter.take('key_a', fromMs + ms).failure) granted += 1;
  return granted;
}

test('three processes together grant the limit once', () => {
  const limiters = [1, 2, 3].map(() => createRateLimiter(60, { share: () => 1 / 3 }));
  for (const limiter of limiters) grantedIn(limiter, 0, 1);
  const granted = limiters.map((limiter) => grantedIn(limiter, 1_000, 10));
  const total = granted.reduce((sum, one) => sum + one, 0);
  assert.ok(total >= 570 && total <= 630, `${total} granted in 10 seconds at 60 per second`);
});

test('a single process grants the entire limit', () => {
  let share = 0.5;
  const limiter = createRateLimiter(40, { share: () => share });
  grantedIn(limiter, 0, 2);
  const halved = grantedIn(limiter, 2_000, 5);
  share = 1;
  const whole = grantedIn(limiter, 7_000, 5);
  assert.ok(Math.abs(halved - 100) <= 2, `${halved} granted with half of the limit`);
  assert.ok(Math.abs(whole - 200) <= 2, `${whole} granted with the full limit`);
});

test('a shared limit of one per second lets requests through rarely and reports when', () => {
  const limiter = createRateLimiter(1, { share: () => 1 / 4 });
  const granted = grantedIn(limiter, 0, 12);
  assert.ok(granted >= 3 && granted <= 4, `${granted} granted in 12 seconds`);
  const fresh = createRateLimiter(1, { share: () => 1 / 4 });
  assert.equal(fresh.take('key_a', 0).failure, undefined);
  assert.equal(fresh.take('key_a', 100).failure?.retryAfterSeconds, 4);
});
